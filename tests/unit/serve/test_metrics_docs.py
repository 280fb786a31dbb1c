"""What docs/metrics.md says is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pglock_inspect.present.metrics import COUNTERS, GAUGES, POLLING, REASONS, families
from tests.support.reports import make_report

if TYPE_CHECKING:
    from prometheus_client import Metric

PAGE = Path(__file__).parents[3].joinpath("docs", "metrics.md").read_text()
ROWS = [
    [cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\| `.*", PAGE, re.MULTILINE)
]


def part(heading: str) -> list[str]:
    return re.findall(
        r"^\| `(\w+)`", PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0], re.MULTILINE
    )


def shown_name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def test_every_metric_is_documented_with_its_type_and_labels() -> None:
    measured = families([make_report()], counters=True)
    types = {shown_name(metric): metric.type for metric in measured}
    labels = {metric.name: metric.labels for metric in (*POLLING, *GAUGES, *COUNTERS)}
    documented = {name.strip("`"): (kind, re.findall(r"\w+", more)) for name, kind, more, _ in ROWS}
    assert documented == {name: (kind, list(labels.get(name, ("version",)))) for name, kind in types.items()}


def test_what_is_there_while_a_target_is_down_is_documented() -> None:
    gone = ["pglock_poll_failures_total", "pglock_build_info"]
    assert part("Polling") == [metric.name for metric in POLLING] + gone
    assert part("Locks") == [metric.name for metric in GAUGES]
    assert part("What was seen over time") == [metric.name for metric in COUNTERS if metric.name not in gone]


def test_every_reason_is_documented() -> None:
    (sentence,) = re.findall(r"`reason` is one of .*", PAGE)
    assert tuple(re.findall(r"`(\w+)`", sentence))[1:] == REASONS

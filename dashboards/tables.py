"""The tables of the overview: what is so now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import common as looks, table
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, DynamicConfigValue

from dashboards.frame import JOB
from dashboards.panels import ORANGE, RED, SEVERITIES, STATES, framed, mappings, thresholds
from dashboards.queries import SEVERAL, column, state_now

if TYPE_CHECKING:
    from collections.abc import Mapping

COLOURED = DynamicConfigValue("custom.cellOptions", {"type": "color-background", "mode": "basic"})
SECONDS = DynamicConfigValue("unit", "s")
SHARE_OF_LIMIT = [
    DynamicConfigValue("unit", "percentunit"),
    DynamicConfigValue("min", 0),
    DynamicConfigValue("max", 1),
    DynamicConfigValue("thresholds", thresholds((0.8, ORANGE), (1, RED)).build()),
    DynamicConfigValue("custom.cellOptions", {"type": "gauge", "mode": "basic"}),
]
TO_THE_JOB = {
    "title": "Runs of ${__value.raw}",
    "url": f"/d/{JOB}?${{datasource:queryparam}}&${{__url_time_range}}"
    "&var-job=${__value.raw:percentencode}&var-target=${__data.fields.Target:percentencode}",
}


def jobs() -> table.Panel:
    """Return a row for each job."""
    each = "by (target, name)"

    def longest(metric: str) -> str:
        return f"max {each} (pglock_job_{metric}{{{SEVERAL.job}}})"

    held, limit = longest("held_seconds"), longest("max_held_seconds")
    columns = {
        "State": (state_now(SEVERAL, "target, name"), [texts(STATES), COLOURED]),
        "Held for": (held, [SECONDS]),
        "Limit": (limit, [SECONDS]),
        "Of the limit": (f"{held} / {limit}", SHARE_OF_LIMIT),
        "Waiting": (f"sum {each} (pglock_job_waiters{{{SEVERAL.job}}})", []),
        "Longest wait": (longest("wait_seconds"), [SECONDS]),
        "Last seen held": (
            f"{longest('last_held_timestamp_seconds')} * 1000",
            [DynamicConfigValue("unit", "dateTimeFromNow")],
        ),
        "Should run every": (longest("every_seconds"), [SECONDS]),
    }
    panel = framed(
        table.Panel(),
        "Jobs now",
        "Every configured job. Click on its name to see its runs.",
        *(column(query) for query, _ in columns.values()),
        width=24,
        height=9,
        empty="No job is configured",
    )
    panel.with_transformation(DataTransformerConfig("merge", options={}))
    values = {f"Value #{letter}": name for letter, name in zip("ABCDEFGH", columns, strict=True)}
    panel.with_transformation(named({"name": "Job", "target": "Target", **values}))
    panel.override_by_name("Job", [DynamicConfigValue("links", [TO_THE_JOB])])
    for name, (_, properties) in columns.items():
        panel.override_by_name(name, properties)
    return panel.sort_by([looks.TableSortByFieldState().display_name("Of the limit").desc(True)])  # noqa: FBT003


def findings() -> table.Panel:
    """Return which rules have found something."""
    panel = framed(
        table.Panel(),
        "Findings now",
        "By rule; docs/findings.md has a section on each. `pglock-inspect check` tells what they are about.",
        column(f"sum by (target, severity, rule) (pglock_findings{{{SEVERAL.target}}}) > 0"),
        width=12,
        height=8,
        empty="Nothing to tell",
    )
    panel.with_transformation(
        named({"severity": "Severity", "rule": "Rule", "target": "Target", "Value": "Number"})
    )
    severities = {severity: (severity, colour) for severity, colour in SEVERITIES.items()}
    return panel.override_by_name("Severity", [texts(severities), COLOURED])


def named(columns: Mapping[str, str]) -> DataTransformerConfig:
    """Return what puts columns into this order, and gives them these names."""
    options = {
        "excludeByName": {"Time": True},
        "indexByName": {column: index for index, column in enumerate(columns)},
        "renameByName": columns,
    }
    return DataTransformerConfig("organize", options=options)


def texts(states: Mapping[str, tuple[str, str]]) -> DynamicConfigValue:
    """Return texts and colours for the values of a column."""
    return DynamicConfigValue("mappings", mappings(states))

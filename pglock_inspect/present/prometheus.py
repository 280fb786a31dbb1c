"""Prometheus' text format, for the textfile collector of the node exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.registry import Collector

from pglock_inspect.present.metrics import families

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import Metric

    from pglock_inspect.model import Report
    from pglock_inspect.present.verdict import Verdict


class Reports(Collector):
    """What reports say, as `families` has it."""

    def __init__(self, reports: Sequence[Report], *, counters: bool = False) -> None:
        self._reports = reports
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        return iter(families(self._reports, counters=self._counters))


def judged(verdicts: Sequence[Verdict]) -> bytes:
    """Return the metrics of judged reports, in UTF-8 whatever the locale."""
    return generate_latest(Reports([verdict.report for verdict in verdicts])).rstrip(b"\n")

"""Prometheus' text format, for the textfile collector of the node exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from pglock_inspect.present.metrics import families

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import Metric

    from pglock_inspect.model import Report
    from pglock_inspect.present.verdict import Verdict


class _Reports(Collector):
    def __init__(self, reports: Sequence[Report]) -> None:
        self._reports = reports

    def collect(self) -> Iterator[Metric]:
        return iter(families(self._reports))


def judged(verdicts: Sequence[Verdict]) -> bytes:
    """Return the metrics of judged reports, in UTF-8 whatever the locale."""
    registry = CollectorRegistry()
    registry.register(_Reports([verdict.report for verdict in verdicts]))
    return generate_latest(registry).rstrip(b"\n")

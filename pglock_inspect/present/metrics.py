"""What reports say, as Prometheus gauges; `GAUGES` is the list.

Only configured jobs have series of their own; all else is summed up by database.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import GaugeMetricFamily

from pglock_inspect import __version__
from pglock_inspect.findings import RULES
from pglock_inspect.model import SEVERITIES, to_datetime
from pglock_inspect.present.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pglock_inspect.model import JobState, Report

    Values = Iterable[tuple[tuple[str | None, ...], float | None]]


class Gauge(NamedTuple):
    """A metric: ``values`` yields its labels beside ``target``, and its values, None where not known."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    values: Callable[[Report], Values]

    def family(self, reports: Iterable[Report]) -> GaugeMetricFamily:
        """Return the metric with the values of all reports."""
        family = GaugeMetricFamily(self.name, self.documentation, labels=["target", *self.labels])
        for report in reports:
            for labels, value in self.values(report):
                if value is not None:
                    family.add_metric([printable(label or "") for label in (report.target, *labels)], value)
        return family


def families(reports: Sequence[Report]) -> Iterator[GaugeMetricFamily]:
    """Yield all metrics; of a server that could not be read, only that."""
    build = GaugeMetricFamily("pglock_build_info", "The version of pglock-inspect.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build
    yield _UP.family(reports)
    readable = [report for report in reports if report.server]
    for gauge in GAUGES:
        yield gauge.family(readable)


def _of_report(value: Callable[[Report], float | None]) -> Callable[[Report], Values]:
    return lambda report: [((), value(report))]


def _of_jobs(value: Callable[[JobState], float | None]) -> Callable[[Report], Values]:
    return lambda report: [((state.database, state.job.name), value(state)) for state in report.jobs]


def _locks(report: Report) -> Values:
    for database, totals in report.totals.items():
        yield (database, "held"), totals.held
        yield (database, "waiting"), totals.waiting


def _findings(report: Report) -> Values:
    counts = Counter((finding.rule, finding.severity) for finding in report.findings)
    rules = dict.fromkeys([*(rule.name for rule in RULES), *(rule for rule, _ in counts)])
    for rule in rules:
        for severity in SEVERITIES:
            yield (rule, severity), counts[rule, severity]


_UP = Gauge(
    "pglock_up", "Whether the last poll worked.", (), _of_report(lambda report: report.server is not None)
)

_JOB = ("database", "name")

GAUGES = (
    Gauge(
        "pglock_last_poll_timestamp_seconds",
        "When the last poll that worked was made, by the server's clock.",
        (),
        _of_report(lambda report: to_datetime(report.taken_at).timestamp()),
    ),
    Gauge(
        "pglock_poll_duration_seconds",
        "How long the last poll that worked took.",
        (),
        _of_report(lambda report: report.poll_seconds),
    ),
    Gauge(
        "pglock_server_in_recovery",
        "Whether the server is a standby.",
        (),
        _of_report(lambda report: report.server.in_recovery if report.server else None),
    ),
    Gauge(
        "pglock_lock_slots_guaranteed",
        "How many locks of all kinds the server's settings guarantee room for.",
        (),
        _of_report(lambda report: report.server.lock_slots_guaranteed if report.server else None),
    ),
    Gauge(
        "pglock_lock_table_rows",
        "How many locks of all kinds there are.",
        (),
        _of_report(lambda report: report.lock_table_rows),
    ),
    Gauge("pglock_locks", "Advisory locks that are held or waited for.", ("database", "state"), _locks),
    Gauge(
        "pglock_unnamed_locks",
        "Advisory locks that nothing names.",
        ("database",),
        lambda report: [((database,), totals.unnamed) for database, totals in report.totals.items()],
    ),
    Gauge("pglock_findings", "What is worth telling.", ("rule", "severity"), _findings),
    Gauge(
        "pglock_job_held", "How many times a job's lock is held.", _JOB, _of_jobs(lambda state: state.held)
    ),
    Gauge(
        "pglock_job_waiters",
        "How many sessions wait for a job's lock.",
        _JOB,
        _of_jobs(lambda state: state.waiters),
    ),
    Gauge(
        "pglock_job_stale",
        "How many of a job's locks are held for too long.",
        _JOB,
        _of_jobs(lambda state: state.stale),
    ),
    Gauge(
        "pglock_job_held_seconds",
        "For how long a job's lock has been held; 0 when it is free.",
        _JOB,
        _of_jobs(lambda state: state.held_seconds if state.held else 0.0),
    ),
    Gauge(
        "pglock_job_wait_seconds",
        "For how long a job's lock has been waited for; 0 when nobody waits.",
        _JOB,
        _of_jobs(lambda state: state.wait_seconds if state.waiters else 0.0),
    ),
    Gauge(
        "pglock_job_max_held_seconds",
        "For how long a job's lock may be held.",
        _JOB,
        _of_jobs(lambda state: None if state.job.long_lived else state.job.limits.max_held),
    ),
    Gauge(
        "pglock_job_every_seconds",
        "How often a job should run.",
        _JOB,
        _of_jobs(lambda state: state.job.every),
    ),
    Gauge(
        "pglock_job_last_held_timestamp_seconds",
        "When a job's lock was last seen held.",
        _JOB,
        _of_jobs(lambda state: None if state.last_held is None else to_datetime(state.last_held).timestamp()),
    ),
)

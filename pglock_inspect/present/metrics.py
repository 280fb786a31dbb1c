"""What reports say, as Prometheus metrics; the lists are `POLLING`, `GAUGES` and `COUNTERS`.

Only configured jobs have series of their own; all else is summed up by database.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeVar, get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

from pglock_inspect import __version__
from pglock_inspect.errors import FailureReason
from pglock_inspect.findings import RULES
from pglock_inspect.model import HOLD_BOUNDS, SEVERITIES, Totals, to_datetime
from pglock_inspect.present.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pglock_inspect.model import Instant, JobState, Report, Tally

    T = TypeVar("T")
    Family = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily
    Values = Iterable[tuple[tuple[str | None, ...], float | None]]


class Measure(NamedTuple):
    """A metric: ``values`` yields its labels beside ``target``, and its values, None where not known."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    values: Callable[[Report], Values]
    kind: type[GaugeMetricFamily | CounterMetricFamily] = GaugeMetricFamily

    def family(self, reports: Iterable[Report]) -> GaugeMetricFamily | CounterMetricFamily:
        """Return the metric with the values of all reports."""
        family = self.kind(self.name, self.documentation, labels=["target", *self.labels])
        for labels, value in _apart((report, each) for report in reports for each in self.values(report)):
            if value is not None:
                family.add_metric(labels, value)
        return family


class Histogram(NamedTuple):
    """A metric of how long holds lasted: ``tallies`` yields its labels beside ``target``, and counts."""

    name: str
    documentation: str
    labels: tuple[str, ...]
    tallies: Callable[[Report], Iterable[tuple[tuple[str, ...], Tally]]]

    def family(self, reports: Iterable[Report]) -> HistogramMetricFamily:
        """Return the metric with the tallies of all reports."""
        family = HistogramMetricFamily(self.name, self.documentation, labels=["target", *self.labels])
        bounds = [*map(floatToGoString, HOLD_BOUNDS), "+Inf"]
        for labels, tally in _apart((report, each) for report in reports for each in self.tallies(report)):
            buckets = [*zip(bounds, accumulate(map(float, tally.lasted)), strict=True)]
            family.add_metric(labels, buckets, tally.seconds)
        return family


def families(reports: Sequence[Report], *, counters: bool = False) -> Iterator[Family]:
    """Yield all metrics; of a server that could not be read, only those of `POLLING` and `COUNTERS`.

    ``counters`` is for a process that goes on: from run to run they would have to be carried.
    """
    build = GaugeMetricFamily("pglock_build_info", "The version of pglock-inspect.", labels=["version"])
    build.add_metric([__version__], 1)
    yield build
    for measure in POLLING:
        yield measure.family(reports)
    readable = [report for report in reports if report.server]
    for measure in GAUGES:
        yield measure.family(readable)
    if counters:
        for counter in COUNTERS:
            yield counter.family(reports)


def _apart(found: Iterable[tuple[Report, tuple[tuple[str | None, ...], T]]]) -> Iterator[tuple[list[str], T]]:
    """Yield labels as they are shown, the first of those that look the same: there may be no two series."""
    seen = set()
    for report, (labels, value) in found:
        shown = tuple(printable(label or "") for label in (report.target, *labels))
        if shown not in seen:
            seen.add(shown)
            yield [*shown], value


def _of_report(value: Callable[[Report], float | None]) -> Callable[[Report], Values]:
    return lambda report: [((), value(report))]


def _of_jobs(value: Callable[[JobState], float | None]) -> Callable[[Report], Values]:
    return lambda report: [((state.database, state.job.name), value(state)) for state in report.jobs]


def _timestamp(instant: Instant | None) -> float | None:
    return None if instant is None else to_datetime(instant).timestamp()


_FAMILIAR = {"login_hangs": "timeout"}
REASONS = tuple(reason for reason in get_args(FailureReason) if reason not in _FAMILIAR)


def _failures(report: Report) -> Values:
    numbers = dict.fromkeys(REASONS, 0)
    for reason, number in report.counters.failures.items():
        label = _FAMILIAR.get(reason, reason)
        numbers[label] = numbers.get(label, 0) + number
    return [((reason,), number) for reason, number in numbers.items()]


def _tallies(report: Report) -> Iterator[tuple[tuple[str, str], Tally]]:
    for name, databases in report.counters.holds.items():
        for database, tally in databases.items():
            yield (database, name), tally


def _locks(report: Report) -> Values:
    for database, totals in _totals(report).items():
        yield (database, "held"), totals.held
        yield (database, "waiting"), totals.waiting


def _totals(report: Report) -> dict[str, Totals]:
    """Return the totals, which are 0 rather than absent for the database that the poll connects to."""
    here = {report.server.database: Totals()} if report.server else {}
    return {**here, **report.totals}


def _findings(report: Report) -> Values:
    counts = Counter((finding.rule, finding.severity) for finding in report.findings)
    rules = dict.fromkeys([*(rule.name for rule in RULES), *(rule for rule, _ in counts)])
    for rule in rules:
        for severity in SEVERITIES:
            yield (rule, severity), counts[rule, severity]


_JOB = ("database", "name")

POLLING = (
    Measure(
        "pglock_up", "Whether the last poll worked.", (), _of_report(lambda report: report.server is not None)
    ),
    Measure(
        "pglock_last_poll_timestamp_seconds",
        "When the last poll that worked was made, by the server's clock.",
        (),
        _of_report(lambda report: _timestamp(report.read_at)),
    ),
    Measure(
        "pglock_poll_duration_seconds",
        "How long the last poll that worked took.",
        (),
        _of_report(lambda report: report.poll_seconds),
    ),
)

GAUGES = (
    Measure(
        "pglock_server_in_recovery",
        "Whether the server is a standby.",
        (),
        _of_report(lambda report: report.server.in_recovery if report.server else None),
    ),
    Measure(
        "pglock_lock_slots_guaranteed",
        "How many locks of all kinds the server's settings guarantee room for.",
        (),
        _of_report(lambda report: report.server.lock_slots_guaranteed if report.server else None),
    ),
    Measure(
        "pglock_lock_table_rows",
        "How many locks of all kinds there are.",
        (),
        _of_report(lambda report: report.lock_table_rows),
    ),
    Measure("pglock_locks", "Advisory locks that are held or waited for.", ("database", "state"), _locks),
    Measure(
        "pglock_unnamed_locks",
        "Advisory locks that nothing names.",
        ("database",),
        lambda report: [((database,), totals.unnamed) for database, totals in _totals(report).items()],
    ),
    Measure("pglock_findings", "What is worth telling.", ("rule", "severity"), _findings),
    Measure(
        "pglock_job_held", "How many times a job's lock is held.", _JOB, _of_jobs(lambda state: state.held)
    ),
    Measure(
        "pglock_job_waiters",
        "How many sessions wait for a job's lock.",
        _JOB,
        _of_jobs(lambda state: state.waiters),
    ),
    Measure(
        "pglock_job_stale",
        "How many of a job's locks are held for too long.",
        _JOB,
        _of_jobs(lambda state: state.stale),
    ),
    Measure(
        "pglock_job_held_seconds",
        "For how long a job's lock has been held; 0 when it is free.",
        _JOB,
        _of_jobs(lambda state: state.held_seconds if state.held else 0.0),
    ),
    Measure(
        "pglock_job_wait_seconds",
        "For how long a job's lock has been waited for; 0 when nobody waits.",
        _JOB,
        _of_jobs(lambda state: state.wait_seconds if state.waiters else 0.0),
    ),
    Measure(
        "pglock_job_max_held_seconds",
        "For how long a job's lock may be held.",
        _JOB,
        _of_jobs(lambda state: None if state.job.long_lived else state.job.limits.max_held),
    ),
    Measure(
        "pglock_job_every_seconds",
        "How often a job should run.",
        _JOB,
        _of_jobs(lambda state: state.job.every),
    ),
    Measure(
        "pglock_job_last_held_timestamp_seconds",
        "When a job's lock was last seen held.",
        _JOB,
        _of_jobs(lambda state: _timestamp(state.last_held)),
    ),
)

COUNTERS = (
    Measure(
        "pglock_poll_failures_total",
        "Polls that failed.",
        ("reason",),
        _failures,
        CounterMetricFamily,
    ),
    Measure(
        "pglock_job_observed_holds_total",
        "How many holds of a job's lock polling has seen.",
        _JOB,
        lambda report: [(labels, tally.begun) for labels, tally in _tallies(report)],
        CounterMetricFamily,
    ),
    Histogram(
        "pglock_job_observed_hold_seconds",
        "How long the holds of a job's lock lasted that polling has seen to end.",
        _JOB,
        _tallies,
    ),
)

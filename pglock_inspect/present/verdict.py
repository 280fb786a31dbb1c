"""What a report means for whoever alarms: one status, and the findings that led to it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from pglock_inspect.model import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pglock_inspect.errors import FailureReason
    from pglock_inspect.model import Finding, Report, Severity


class Status(IntEnum):
    """A Nagios plug-in's status; the number is its exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class Verdict(NamedTuple):
    """``alarms`` made the status, the worst first; or ``error`` did, a sentence."""

    report: Report
    status: Status
    alarms: tuple[Finding, ...] = ()
    error: str | None = None


_BY_SEVERITY: dict[Severity, Status] = {"warning": Status.WARNING, "critical": Status.CRITICAL}
_BY_URGENCY = (Status.OK, Status.UNKNOWN, Status.WARNING, Status.CRITICAL)

# The server answers, and what it says is that nobody gets a lock or a connection any more.
OUTAGES: frozenset[FailureReason] = frozenset({"login_hangs", "lock_table_full", "too_many_connections"})


def judge(report: Report, jobs: Collection[str] = (), unmet: Sequence[Finding] = ()) -> Verdict:
    """Return the verdict on a report; with ``jobs``, only what was found about these counts.

    ``unmet`` is what was expected and is not so: it is added to what was found, and always counts.
    """
    if report.server is None:
        status = Status.CRITICAL if report.failure in OUTAGES else Status.UNKNOWN
        return Verdict(report, status, error=report.error)
    relevant = [*unmet, *(finding for finding in report.findings if not jobs or finding.job in jobs)]
    alarms = [finding for finding in relevant if finding.severity in _BY_SEVERITY]
    alarms.sort(key=lambda alarm: -SEVERITIES.index(alarm.severity))
    return Verdict(
        report=replace(report, findings=(*unmet, *report.findings)) if unmet else report,
        status=worst(_BY_SEVERITY[alarm.severity] for alarm in alarms),
        alarms=tuple(alarms),
    )


def doubt(verdict: Verdict, error: str) -> Verdict:
    """Return a verdict by which nothing is OK any more, for a reason; what alarms goes on to."""
    return verdict._replace(status=Status.UNKNOWN, error=error) if verdict.status is Status.OK else verdict


def worst(statuses: Iterable[Status]) -> Status:
    """Return the most urgent status: what is known to be wrong, before what is not known."""
    return max(statuses, key=_BY_URGENCY.index, default=Status.OK)

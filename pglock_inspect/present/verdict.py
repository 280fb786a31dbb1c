"""What a report means for whoever alarms: one status, and the findings that led to it."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pglock_inspect.errors import FailureReason
    from pglock_inspect.model import Finding, Report, Severity


class Status(IntEnum):
    """A Nagios plug-in's status; the number is its exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3


class Verdict(NamedTuple):
    """``alarms`` are the findings that made the status, the worst first."""

    report: Report
    status: Status
    alarms: tuple[Finding, ...] = ()


_BY_SEVERITY: dict[Severity, Status] = {"warning": Status.WARNING, "critical": Status.CRITICAL}
_BY_URGENCY = (Status.OK, Status.UNKNOWN, Status.WARNING, Status.CRITICAL)

# The server answers, and what it says is that nobody gets a lock or a connection any more.
_OUTAGES: frozenset[FailureReason] = frozenset({"lock_table_full", "too_many_connections"})


def judge(report: Report, jobs: Collection[str] = ()) -> Verdict:
    """Return the verdict on a report; with ``jobs``, only what was found about these counts."""
    if report.server is None:
        return Verdict(report, Status.CRITICAL if report.failure in _OUTAGES else Status.UNKNOWN)
    alarms = tuple(
        finding
        for finding in report.findings
        if finding.severity in _BY_SEVERITY and (not jobs or finding.job in jobs)
    )
    return Verdict(report, worst(_BY_SEVERITY[alarm.severity] for alarm in alarms), alarms)


def worst(statuses: Iterable[Status]) -> Status:
    """Return the most urgent status: what is known to be wrong, before what is not known."""
    return max(statuses, key=_BY_URGENCY.index, default=Status.OK)

"""The rows that one server gets on the page: the worst first, and no more than there is room for."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from pglock_inspect.model import SEVERITIES
from pglock_inspect.present.page.rows import finding_row, job_row, lock_row, worst
from pglock_inspect.present.table import arrange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pglock_inspect.model import Finding, JobState, Lock, Report, Severity
    from pglock_inspect.present.page.rows import FindingRow, Identities, JobRow, LockRow

Row = TypeVar("Row")

_ALIKE = 12  # locks that differ in their key alone

URGENCY: dict[Severity | None, int] = {None: 0, "info": 0, "warning": 1, "critical": 2}
"""What makes somebody look; an information does not."""


class Listing(NamedTuple, Generic[Row]):
    """Rows, and what was left out in words; empty where nothing was."""

    rows: tuple[Row, ...] = ()
    more: str = ""


class Frame(NamedTuple):
    """What is the same for each server: how many rows of each kind it gets, and what they show.

    ``named``: commands have to tell which server they mean. ``overdue`` is the age in seconds by which the
    next report should have come.
    """

    jobs: int
    findings: int
    locks: int
    queries: bool
    named: bool
    overdue: float
    identities: Identities


def list_jobs(report: Report, frame: Frame, *, databases: bool) -> Listing[JobRow]:
    """Return the jobs, those that something was found about first; with their ``databases`` or without."""
    locks = _by_job(report)
    findings: defaultdict[str | None, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        findings[finding.job].append(finding)

    def found(state: JobState) -> list[Finding]:
        return [f for f in findings.get(state.job.name, ()) if f.database in {None, state.database}]

    def held(state: JobState) -> list[Lock]:
        return locks.get((state.job.name, state.database), [])

    def urgency(state: JobState) -> int:
        of_locks = (lock.severity for lock in held(state))
        return -URGENCY[worst([*of_locks, *(finding.severity for finding in found(state))])]

    states = sorted(report.jobs, key=urgency)
    return Listing(
        tuple(
            job_row(
                frame.identities.of(report.target, "job", state.job.name, state.database),
                state if databases else replace(state, database=None),
                held(state),
                found(state),
                report.taken_at,
            )
            for state in states[: frame.jobs]
        ),
        _more("running" if state.held else "free" for state in states[frame.jobs :]),
    )


def _by_job(report: Report) -> dict[tuple[str, str | None], list[Lock]]:
    locks: defaultdict[tuple[str, str | None], list[Lock]] = defaultdict(list)
    for lock in report.list_locks(1) if report.jobs else ():
        if lock.name and lock.name.job:
            locks[lock.name.job.name, lock.database].append(lock)
    return locks


def list_findings(report: Report, frame: Frame) -> Listing[FindingRow]:
    """Return the findings, the worst first."""
    findings = worst_first(report)
    return Listing(
        tuple(
            finding_row(
                frame.identities.of(report.target, each.rule, each.database, each.key, each.job, each.pid),
                each,
                report.target if frame.named else None,
            )
            for each in findings[: frame.findings]
        ),
        _more(finding.severity for finding in findings[frame.findings :]),
    )


def worst_first(report: Report) -> list[Finding]:
    """Return the findings of a report, the worst first."""
    return sorted(report.findings, key=lambda finding: -SEVERITIES.index(finding.severity))


def list_locks(report: Report, frame: Frame, *, databases: bool) -> Listing[LockRow]:
    """Return the locks as the terminal arranges them; with their ``databases`` or without."""
    locks = arrange(report.list_locks(min(_ALIKE, frame.locks)))[: frame.locks]
    total = sum(totals.held + totals.waiting for totals in report.totals.values())
    return Listing(
        tuple(
            lock_row(
                _identity(report, lock, frame),
                lock if databases else replace(lock, database=None),
                query=frame.queries,
            )
            for lock in locks
        ),
        f"and {total - len(locks):,} more, which pglock-inspect ls lists" if total > len(locks) else "",
    )


def _identity(report: Report, lock: Lock, frame: Frame) -> str:
    holder = lock.prepared.gid if lock.prepared else lock.pid
    return frame.identities.of(report.target, "lock", lock.key, lock.database, lock.mode, holder)


def _more(left_out: Iterable[str]) -> str:
    numbers = Counter(left_out)
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in numbers.items())
    return f"and {numbers.total():,} more: {kinds}" if numbers else ""

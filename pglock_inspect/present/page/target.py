"""What the page says of one server."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from pglock_inspect.model import SEVERITIES, seconds_between, to_datetime
from pglock_inspect.present.page.listings import (
    URGENCY,
    Frame,
    Listing,
    list_findings,
    list_jobs,
    list_locks,
    worst_first,
)
from pglock_inspect.present.page.rows import Mark, mark_of, moment, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.model import Report, Server
    from pglock_inspect.present.page.rows import FindingRow, JobRow, LockRow
    from pglock_inspect.present.spans import Meaning

UNREAD = Mark("not read yet", "quiet", "○")
UNREADABLE = Mark("cannot be read", "critical", "✗")
SILENT = Mark("silent", "warning", "▲")
WELL = Mark("well", "good", "✓")


class Count(NamedTuple):
    """How many findings there are of a severity."""

    number: int
    word: str
    meaning: Meaning
    sign: str


class Target(NamedTuple):
    """One server. One that cannot be read has an ``error``, and nothing from ``counts`` on.

    ``gist`` is the one thing to say of it. ``old`` says that what is shown may not be so any more, ``since``
    and ``away`` for how long it could not be read.
    """

    id: str
    name: str
    link: str
    mark: Mark
    gist: str
    read_at: str
    read_at_iso: str
    age: str
    old: bool
    error: str | None = None
    since: str | None = None
    away: str | None = None
    counts: tuple[Count, ...] = ()
    about: tuple[str, ...] = ()
    totals: tuple[str, ...] = ()
    jobs: Listing[JobRow] = Listing()
    findings: Listing[FindingRow] = Listing()
    locks: Listing[LockRow] = Listing()


def target_of(report: Report, age: float, frame: Frame) -> Target:
    """Return what to say of a report that came ``age`` seconds ago."""
    target = Target(
        id=frame.identities.of(report.target),
        name=report.target,
        link=f"?target={quote(report.target, safe='', errors='replace')}",
        mark=UNREAD,
        gist=report.error or "",
        read_at=moment(report.taken_at),
        read_at_iso=f"{to_datetime(report.taken_at):%Y-%m-%dT%H:%M:%SZ}",
        age="now" if age < 1 else f"{whole(age)} ago",
        old=age > frame.overdue,
    )
    if report.server is None:
        target = target._replace(error=(report.error or "").rstrip("."))
        return target if report.failing_since is None else _failing(target, report)
    in_several, severity = len(_databases(report)) > 1, report.severity
    mark = mark_of(severity) if severity and URGENCY[severity] else WELL
    return target._replace(
        mark=SILENT if target.old and severity != "critical" else mark,
        gist=_gist(report),
        counts=tuple(_counts(report)),
        about=tuple(_about(report, report.server)),
        totals=tuple(_totals(report, report.server)),
        jobs=list_jobs(report, frame, databases=in_several),
        findings=list_findings(report, frame),
        locks=list_locks(report, frame, databases=in_several),
    )


def _failing(target: Target, report: Report) -> Target:
    assert report.failing_since is not None
    seconds = max(seconds_between(report.failing_since, report.taken_at), 0.0)
    return target._replace(mark=UNREADABLE, since=moment(report.failing_since), away=whole(seconds))


def _databases(report: Report) -> set[str]:
    return {*report.totals, *(state.database for state in report.jobs if state.database is not None)}


def _gist(report: Report) -> str:
    for finding in worst_first(report)[:1]:
        if URGENCY[finding.severity]:
            return finding.summary
    running = sum(state.held > 0 for state in report.jobs)
    held = sum(totals.held for totals in report.totals.values())
    jobs = f"{running:,} of {len(report.jobs):,} jobs running, " if report.jobs else ""
    return f"{jobs}{held:,} lock{'' if held == 1 else 's'} held"


def _counts(report: Report) -> Iterator[Count]:
    numbers = Counter(finding.severity for finding in report.findings)
    for severity in reversed(SEVERITIES):
        if numbers[severity]:
            yield Count(numbers[severity], *mark_of(severity))


def _about(report: Report, server: Server) -> Iterator[str]:
    yield f"PostgreSQL {server.version}"
    yield "standby" if server.in_recovery else "primary"
    databases = _databases(report)
    if len(databases) == 1:
        yield f"database {databases.pop()}"
    if server.pooler:
        yield "behind a pooler"
    if not server.privileged:
        yield "without pg_monitor"


def _totals(report: Report, server: Server) -> Iterator[str]:
    totals = report.totals.values()
    yield f"{sum(each.held for each in totals):,} held"
    yield f"{sum(each.waiting for each in totals):,} waiting"
    if unnamed := sum(each.unnamed for each in totals):
        yield f"{unnamed:,} without a name"
    yield f"lock table {report.lock_table_rows / max(server.lock_slots_guaranteed, 1):.0%} full"

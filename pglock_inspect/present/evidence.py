"""What a report knows of one lock: the findings about it, and what its age rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.model import SEVERITIES, seconds_between, to_datetime

if TYPE_CHECKING:
    from pglock_inspect.model import Evidence, Finding, Instant, Lock, Report

_KNOWN_HOW: dict[Evidence, str] = {
    "stamp": "the holder stamped the lock when it took it",
    "prepared": "it was prepared at {}",
    "session_state": "the session has run nothing since {}",
    "transaction": "its transaction began at {}",
    "statement": "its statement began at {} and takes no such lock: an estimate",
    "observed": "each poll since then saw it; it may have been released and taken again in between",
    "none": "nothing tells since when",
}


def findings_of(lock: Lock, report: Report) -> list[Finding]:
    """Return the findings about a lock, worst first."""
    found = [
        finding for finding in report.findings if finding.rule in lock.findings and _is_about(finding, lock)
    ]
    return sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity))


def _is_about(finding: Finding, lock: Lock) -> bool:
    if finding.about:
        holder = lock.prepared.gid if lock.prepared else lock.pid
        packed = lock.key.packed
        return any(
            packed in keys
            and (group.rows.objsubid, group.rows.mode) == (lock.key.objsubid, lock.mode)
            and holder == (group.prepared.gid if group.prepared else group.rows.pid)
            for group, keys in finding.about
        )
    return finding.key == lock.key and finding.pid in {None, lock.pid}


def known_how(lock: Lock, report: Report) -> str:
    """Return what the estimate of a held lock's age rests on."""
    evidence = lock.held.evidence if lock.held else "none"
    return _KNOWN_HOW[evidence].format(clock(_told_at(lock, evidence), report))


def _told_at(lock: Lock, evidence: Evidence) -> Instant | None:
    session, prepared = lock.session, lock.prepared
    if evidence == "prepared":
        return prepared.prepared_at if prepared else None
    times: dict[Evidence, Instant | None] = {}
    if session:
        times = {
            "session_state": session.state_change,
            "transaction": session.xact_start,
            "statement": session.query_start,
        }
    return times.get(evidence)


def clock(instant: Instant | None, report: Report) -> str:
    """Return the time of an instant, with its date unless the report is of the same day."""
    if instant is None:
        return "an unknown time"
    moment = to_datetime(instant)
    same_day = moment.date() == to_datetime(report.taken_at).date()
    return f"{moment:{'%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S'}} UTC"


def since(instant: Instant | None, report: Report) -> float | None:
    """Return the seconds from an instant to the report; None where it is not known, or later."""
    seconds = None if instant is None else seconds_between(instant, report.taken_at)
    return seconds if seconds is not None and seconds >= 0 else None

"""What a check is told must be so: locks that are held, locks that are free, no lock at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pglock_inspect.findings import words
from pglock_inspect.findings.overdue import look_at
from pglock_inspect.model import Finding, Job
from pglock_inspect.present.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.model import Lock, Report

EXPECTATIONS = ("must-be-held", "must-be-free", "no-locks")
"""The rules that an unmet expectation is reported under."""

_MOST_NAMED = 3


class Expectations(Struct, frozen=True):
    """``held`` and ``free`` are names of jobs; ``no_locks`` is about the database that was connected to."""

    held: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    no_locks: bool = False

    def met(self, report: Report) -> bool:
        """Whether the server was read, and all is as expected."""
        return report.server is not None and next(self.unmet(report), None) is None

    def unmet(self, report: Report) -> Iterator[Finding]:
        """Yield a critical finding for whatever is not as expected; none where the server was not read."""
        if report.server is None:
            return
        for name in self.held:
            if not _holds(report, name):
                yield _not_held(report, name)
        for name in self.free:
            for lock in _holds(report, name):
                yield _not_free(name, lock)
        if self.no_locks:
            yield from _left(report, report.server.database)


def _holds(report: Report, name: str) -> list[Lock]:
    return [lock for lock in Selection(jobs=frozenset({name})).of(report).locks if lock.granted]


def _not_held(report: Report, name: str) -> Finding:
    states = [state for state in report.jobs if state.job.name == name]
    job = states[0].job if states else Job(name)  # a recording may know it by a lock alone
    return Finding(
        rule="must-be-held",
        severity="critical",
        summary=f"{name} must be held, and nobody holds it",
        evidence=f"held by nobody, waited for by {sum(state.waiters for state in states)}",
        suggestion=look_at(job),
        job=name,
        database=job.database,
    )


def _not_free(name: str, lock: Lock) -> Finding:
    return Finding(
        rule="must-be-free",
        severity="critical",
        summary=f"{name} must be free, and {_process(lock)} holds it",
        evidence=_evidence([lock]),
        suggestion=f"wait for its end (--within), or end it: {_end(lock)}",
        job=name,
        pid=lock.pid,
        database=lock.database,
        key=lock.key,
    )


def _left(report: Report, database: str) -> Iterator[Finding]:
    by_process: dict[str, list[Lock]] = {}
    for lock in sorted(report.locks, key=lambda lock: (not lock.granted, lock.key)):
        if lock.database == database:
            by_process.setdefault(_process(lock), []).append(lock)
    for process, locks in by_process.items():
        first, only = locks[0], len(locks) == 1
        yield Finding(
            rule="no-locks",
            severity="critical",
            summary=f"{process} {'holds' if first.granted else 'waits for'} {_titles(locks)}, "
            f"where database {database} must have no lock left",
            evidence=_evidence(locks),
            suggestion=f"unlock where it is locked, or close that connection: {_end(first)}",
            job=first.name.text if first.name and only else None,
            pid=first.pid,
            database=database,
            key=first.key if only else None,
        )


def _titles(locks: Iterable[Lock]) -> str:
    titles = [*dict.fromkeys(lock.name.text if lock.name else f"key {lock.key}" for lock in locks)]
    more = f" and {len(titles) - _MOST_NAMED:,} more" if len(titles) > _MOST_NAMED else ""
    return ", ".join(titles[:_MOST_NAMED]) + more


def _process(lock: Lock) -> str:
    if lock.pid is not None:
        return words.process(lock.pid, lock.session)
    return f"prepared transaction {lock.prepared.gid!r}" if lock.prepared else "a prepared transaction"


def _evidence(locks: Sequence[Lock]) -> str:
    first, session = locks[0], locks[0].session
    parts = [f"{len(locks):,} locks"] if len(locks) > 1 else []
    parts.append(words.age(first.held) if first.held else "waiting")
    if session and session.state:
        parts.append(f"{session.state}, its last statement a {words.last_command(session)}")
    return "; ".join(parts)


def _end(lock: Lock) -> str:
    return (
        f"pglock-inspect why {lock.key}"
        if lock.pid is None
        else f"pglock-inspect kill {lock.pid} --terminate"
    )

"""What a person means by JOB, KEY or pid:N."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.errors import InvalidKey
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.names.configured import key_in
from pglock_inspect.present.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pglock_inspect.model import Lock, Report

_PID = re.compile(r"pid:\s*([0-9]{1,30})", re.IGNORECASE)


def locks_meant(report: Report, text: str) -> list[Lock]:
    """Return the locks of a process (``pid:N``), of a job, or of a key (``N``, ``A,B``, ``C/O/S``).

    A bare number is a pid where a process of that number holds or waits, else a key.
    """
    pid = pid_meant(report, text)
    if pid is not None:
        return [lock for lock in report.locks if lock.pid == pid]
    named = [lock for lock in report.locks if lock.name and text in {lock.name.text, _job_of(lock)}]
    if named:
        return named
    key = key_meant(text)
    return [lock for lock in report.locks if lock.key == key] if key else []


def _job_of(lock: Lock) -> str | None:
    return lock.name.job.name if lock.name and lock.name.job else None


def pid_meant(report: Report, text: str) -> int | None:
    """Return the pid in ``pid:N``, or in a bare number that is one of a holder or waiter."""
    written = _PID.fullmatch(text.strip())
    if written:
        return int(written[1])
    return next((lock.pid for lock in report.locks if lock.pid is not None and str(lock.pid) == text), None)


def key_meant(text: str) -> AdvisoryKey | None:
    """Return the key that a text is, None where it is none."""
    try:
        return AdvisoryKey.parse(text)
    except InvalidKey:
        return None


def names_job(text: str) -> bool:
    """Whether a text can only be a job's name."""
    return not _PID.fullmatch(text.strip()) and key_meant(text) is None


class Free(NamedTuple):
    """Where the lock of a job or key would be, were it held; ``scheme`` where the name makes the key."""

    database: str | None
    key: AdvisoryKey
    scheme: str | None = None


def free_places(report: Report, text: str) -> list[Free]:
    """Return where the lock of a job or key would be; nothing for a process, or for a job of many keys."""
    if pid_meant(report, text) is not None:
        return []
    database = report.server.database if report.server else None
    key = key_meant(text)
    if key:
        return [Free(database, key)]
    by_name = {known.name: known for known in report.databases.values()}
    places = []
    for state in report.jobs:
        job, where = state.job, state.database or database
        key = key_in(job, by_name.get(where or "")) if job.name == text else None
        if key:
            places.append(Free(where, key, None if job.key else job.scheme))
    return places


def not_configured(report: Report, names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each name that no lock has: perhaps another was meant."""
    for name in dict.fromkeys(names):
        if report.server is None or Selection(jobs=frozenset({name})).of(report).locks:
            continue
        for place in free_places(report, name):
            yield (
                f"nobody holds {name!r} on {report.target} or waits for it, and no job of this name is "
                f"configured: it was taken to mean key {place.key} ({place.scheme}); correct or configure it"
            )

"""What a report knows and its document does not tell, so that what was recorded is shown as it was."""

from __future__ import annotations

import zlib
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.json import decode, encode
from msgspec.structs import replace

from pglock_inspect.errors import FailureReason
from pglock_inspect.model import Blocked, Database, Instant, Job, JobState, Scope, Severity
from pglock_inspect.present.text import well_formed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Lock, Prepared, Report

    Which = tuple[int | str | None, str, AdvisoryKey]
    """A process, the mode of its lock, and the key."""


class LockRest(Struct, frozen=True, omit_defaults=True):
    """Of a lock. ``job`` to ``maybe`` are of its name, ``about`` numbers the findings about it."""

    pid: int | None = None
    job: Job | None = None
    scope: Scope | None = None
    long_lived: bool = False
    maybe: bool = False
    about: tuple[int, ...] = ()
    severity: Severity | None = None


class Rest(Struct, frozen=True, omit_defaults=True):
    """Of a report, whose own fields these are, but for the last two.

    ``found_in`` has the database of each finding, ``locks`` what is to be said of so many in a row.
    """

    failure: FailureReason | None = None
    failing_since: Instant | None = None
    read_at: Instant | None = None
    poll_seconds: float | None = None
    jobs: tuple[JobState, ...] = ()
    chain: tuple[Blocked, ...] = ()
    databases: tuple[Database, ...] = ()
    found_in: tuple[str | None, ...] = ()
    locks: tuple[tuple[LockRest, int], ...] = ()


def rest_of(report: Report, *, queries: bool) -> Rest:
    """Return what the document of a report does not tell; without ``queries``, not their text."""
    return Rest(
        failure=report.failure,
        failing_since=report.failing_since,
        read_at=report.read_at,
        poll_seconds=report.poll_seconds,
        jobs=report.jobs,
        chain=tuple(_blocked(blocked, queries=queries) for blocked in report.chain.values()),
        databases=tuple(report.databases.values()),
        found_in=tuple(finding.database for finding in report.findings),
        locks=tuple((rest, len([*run])) for rest, run in groupby(_of_locks(report))),
    )


def _blocked(blocked: Blocked, *, queries: bool) -> Blocked:
    session = blocked.session
    return replace(blocked, session=session and replace(session, query=session.query if queries else None))


def _of_locks(report: Report) -> Iterator[LockRest]:
    about: dict[Which, list[int]] = {}
    for number, finding in enumerate(report.findings):
        for group, keys in finding.about:
            process, rows = _process(group.rows.pid, group.prepared), group.rows
            for packed in keys:
                about.setdefault((process, rows.mode, rows.key(packed)), []).append(number)
    for lock in report.locks:
        which = _process(lock.pid, lock.prepared), lock.mode, lock.key
        yield _of_lock(lock, tuple(about.get(which, ())))


def _process(pid: int | None, prepared: Prepared | None) -> int | str | None:
    return prepared.gid if prepared else pid


def _of_lock(lock: Lock, about: tuple[int, ...]) -> LockRest:
    pid = None if lock.session else lock.pid  # it was gone when sessions were read
    name = lock.name
    if name is None:
        return LockRest(pid, about=about, severity=lock.severity)
    return LockRest(pid, name.job, name.scope, name.long_lived, name.maybe, about, lock.severity)


def encoded(rests: Sequence[Rest]) -> bytes:
    """Return what goes with the lines of a poll."""
    try:
        json = encode(rests)
    except UnicodeEncodeError:  # bytes that were no text in the server's encoding
        json = encode(_encodable(to_builtins(rests)))
    return zlib.compress(json)


def decoded(content: bytes) -> list[Rest]:
    """Return what went with the lines of a poll. Raises ValueError where it is damaged."""
    try:
        return decode(zlib.decompress(content), type=list[Rest])
    except zlib.error as error:
        raise ValueError(str(error)) from None


def _encodable(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [*map(_encodable, value)] if isinstance(value, (list, tuple)) else value

"""A report of its document, and of what that does not tell."""

from __future__ import annotations

from datetime import datetime
from itertools import chain, groupby, repeat
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import asdict

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import (
    Evidence,
    Finding,
    Held,
    HoldGroup,
    Instant,
    Lock,
    LockRows,
    Name,
    NameSource,
    Prepared,
    Report,
    Scope,
    Server,
    Session,
    Severity,
    Sighting,
    to_instant,
)
from pglock_inspect.present.selection import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.recording.rest import LockRest, Rest

_TIMES = ("backend_start", "xact_start", "query_start", "state_change")
_NOWHEN = Sighting(Instant(0), 0)  # a finding has told what follows from it


_Halves = Annotated[int, Meta(ge=0, lt=1 << 32)]
_Seconds = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""More than PostgreSQL's times are apart."""
_Count = Annotated[int, Meta(ge=0, lt=1 << 62)]


_Word = Annotated[str, Meta(pattern=r"\A[ -~]*\Z")]
"""One of PostgreSQL's or of this program, which presenters show as it is."""


class _Key(Struct):
    classid: _Halves
    objid: _Halves
    objsubid: Annotated[int, Meta(ge=0, lt=1 << 16)]
    database: str | None

    def made(self) -> AdvisoryKey:
        return AdvisoryKey(self.classid, self.objid, self.objsubid)


class _Session(Struct):
    pid: int
    backend_start: datetime | None
    user: str | None
    application_name: str | None
    client: str | None
    state: str | None
    xact_start: datetime | None
    query_start: datetime | None
    state_change: datetime | None
    wait_event: str | None
    backend_type: str | None
    query: str | None


class _Prepared(Struct):
    gid: str
    prepared_at: datetime
    owner: str | None
    database: str | None


class _Held(Struct):
    seconds: _Seconds | None
    at_least: _Seconds | None
    at_most: _Seconds | None
    evidence: Evidence


class _Lock(Struct):
    key: _Key
    job: str | None
    name_source: NameSource | None
    scheme: _Word | None
    product: str | None
    mode: _Word
    granted: bool
    scope: Scope | None
    session: Raw
    prepared: _Prepared | None
    held: _Held | None
    waited_seconds: _Seconds | None
    max_held: _Seconds | None
    blocked_by: tuple[int | str, ...]
    waiters: _Count
    findings: tuple[_Word, ...]
    queued_behind: tuple[int | str, ...] | None = None


class _Finding(Struct):
    rule: _Word
    severity: Severity
    job: str | None
    pid: int | None
    key: _Key | None
    summary: str
    evidence: str
    suggestion: str


class _Server(Struct):
    version: str
    version_num: int
    in_recovery: bool
    privileged: bool
    pooler: bool | None
    started_at: datetime | None
    database: str


class _Capacity(Struct):
    lock_slots_guaranteed: _Count | None
    locks: _Count | None


class _Document(Struct):
    """What `present.document` writes; a recording may come from anybody, and hold anything."""

    target: str
    taken_at: datetime
    server: _Server | None
    capacity: _Capacity
    locks: list[_Lock]
    findings: list[_Finding]
    error: str | None = None


_DOCUMENT = Decoder(_Document)
_SESSION = Decoder(_Session | None)


def report_of(line: bytes, rest: Rest) -> Report:
    """Return the report of a document. Raises ValueError, LookupError or TypeError where it is none."""
    document = _DOCUMENT.decode(line)
    rests = [*chain.from_iterable(repeat(*run) for run in rest.locks)]
    locks = tuple(_locks(document.locks, rests))
    return Report(
        target=document.target,
        taken_at=to_instant(document.taken_at),
        server=None if document.server is None else _server(document.server, document.capacity),
        error=document.error,
        failure=rest.failure,
        failing_since=rest.failing_since,
        read_at=rest.read_at,
        poll_seconds=rest.poll_seconds,
        lock_table_rows=document.capacity.locks or 0,
        findings=tuple(_findings(document.findings, rest, zip(locks, rests, strict=True))),
        jobs=rest.jobs,
        totals=count(locks),
        chain={blocked.pid: blocked for blocked in rest.chain},
        databases={database.oid: database for database in rest.databases},
        list_locks=lambda _: locks,
    )


def _server(server: _Server, capacity: _Capacity) -> Server:
    fields = asdict(server) | {"pooler": server.pooler or None, "started_at": _known(server.started_at)}
    return Server(**fields, lock_slots_guaranteed=capacity.lock_slots_guaranteed or 0)


def _locks(documents: Sequence[_Lock], rests: Sequence[LockRest]) -> Iterator[Lock]:
    sessions: dict[bytes, Session | None] = {}
    for lock, rest in zip(documents, rests, strict=True):
        database, written = lock.key.database, bytes(lock.session)
        if written not in sessions:  # one with many locks is made once
            sessions[written] = _session(_SESSION.decode(written), database)
        session = sessions[written]
        yield Lock(
            key=lock.key.made(),
            database=database,
            name=_name(lock, rest),
            mode=lock.mode,
            granted=lock.granted,
            scope=lock.scope,
            pid=session.pid if session else rest.pid,
            session=session,
            prepared=None if lock.prepared is None else _prepared(lock.prepared),
            held=None if lock.held is None else Held(**asdict(lock.held)),
            waited_seconds=lock.waited_seconds,
            max_held=lock.max_held,
            blocked_by=lock.blocked_by,
            queued_behind=lock.queued_behind,
            waiters=lock.waiters,
            findings=lock.findings,
            severity=rest.severity,
        )


def _name(lock: _Lock, rest: LockRest) -> Name | None:
    if lock.job is None:
        return None
    if lock.name_source is None:
        raise ValueError("a job without a source of its name")
    return Name(
        text=lock.job,
        source=lock.name_source,
        scheme=lock.scheme,
        product=lock.product,
        job=rest.job,
        scope=rest.scope,
        long_lived=rest.long_lived,
        maybe=rest.maybe,
    )


def _session(session: _Session | None, database: str | None) -> Session | None:
    if session is None:
        return None
    times = {name: _known(getattr(session, name)) for name in _TIMES}
    return Session(**asdict(session) | times, database=database)


def _prepared(prepared: _Prepared) -> Prepared:
    return Prepared(**asdict(prepared) | {"prepared_at": to_instant(prepared.prepared_at)})


def _findings(
    documents: Sequence[_Finding], rest: Rest, locks: Iterable[tuple[Lock, LockRest]]
) -> Iterator[Finding]:
    about: list[list[Lock]] = [[] for _ in documents]
    for lock, its_rest in locks:
        for number in its_rest.about:
            about[number].append(lock)
    for finding, database, its_locks in zip(documents, rest.found_in, about, strict=True):
        groups = [(group, group.keys) for group in _groups(its_locks)]
        key = finding.key and finding.key.made()
        yield Finding(**asdict(finding) | {"key": key}, database=database, about=tuple(groups))


def _groups(locks: Sequence[Lock]) -> Iterator[HoldGroup]:
    """Yield the locks of a finding in groups that differ in nothing but their key."""
    alike = groupby(
        locks, key=lambda lock: (lock.pid, lock.prepared, lock.key.objsubid, lock.mode, lock.granted)
    )
    for (pid, prepared, objsubid, mode, granted), run in alike:
        keys = frozenset(lock.key.classid << 32 | lock.key.objid for lock in run)
        rows = LockRows(pid, "", 0, objsubid, mode, granted, keys)
        yield HoldGroup(rows, keys, (), _NOWHEN, prepared=prepared)


def _known(moment: datetime | None) -> Instant | None:
    return None if moment is None else to_instant(moment)

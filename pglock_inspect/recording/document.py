"""A report of its document, and of what that does not tell."""

from __future__ import annotations

from datetime import datetime
from itertools import chain, groupby, repeat
from typing import TYPE_CHECKING, Any

from msgspec.json import decode

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import (
    Finding,
    Held,
    HoldGroup,
    Instant,
    Lock,
    LockRows,
    Name,
    Prepared,
    Report,
    Server,
    Session,
    Sighting,
    to_instant,
)
from pglock_inspect.present.selection import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.recording.rest import LockRest, Rest

    Fields = dict[str, Any]

_NOWHEN = Sighting(Instant(0), 0)  # a finding has told what follows from it


def report_of(line: bytes, rest: Rest) -> Report:
    """Return the report of a document. Raises ValueError, LookupError or TypeError where it is none."""
    document = decode(line)
    rests = [*chain.from_iterable(repeat(*run) for run in rest.locks)]
    locks = tuple(_locks(document["locks"], rests))
    return Report(
        target=document["target"],
        taken_at=_instant(document["taken_at"]),
        server=document["server"] and _server(document),
        error=document.get("error"),
        failure=rest.failure,
        failing_since=rest.failing_since,
        read_at=rest.read_at,
        poll_seconds=rest.poll_seconds,
        lock_table_rows=document["capacity"]["locks"] or 0,
        findings=tuple(_findings(document["findings"], rest, zip(locks, rests, strict=True))),
        jobs=rest.jobs,
        totals=count(locks),
        chain={blocked.pid: blocked for blocked in rest.chain},
        databases={database.oid: database for database in rest.databases},
        list_locks=lambda _: locks,
    )


def _server(document: Fields) -> Server:
    fields = document["server"]
    return Server(
        **{name: fields[name] for name in fields.keys() - {"poll_seconds", "started_at"}},
        started_at=_known(fields["started_at"]),
        lock_slots_guaranteed=document["capacity"]["lock_slots_guaranteed"],
    )


def _locks(documents: Sequence[Fields], rests: Sequence[LockRest]) -> Iterator[Lock]:
    sessions: dict[int, Session] = {}
    for fields, rest in zip(documents, rests, strict=True):
        database, session = fields["key"]["database"], None
        if fields["session"]:
            pid = fields["session"]["pid"]
            session = sessions.get(pid)
            if session is None:  # one with many locks is made once
                session = sessions[pid] = _session(fields["session"], database)
        yield Lock(
            key=_key(fields["key"]),
            database=database,
            name=None if fields["job"] is None else _name(fields, rest),
            mode=fields["mode"],
            granted=fields["granted"],
            scope=fields["scope"],
            pid=session.pid if session else rest.pid,
            session=session,
            prepared=fields["prepared"] and _prepared(fields["prepared"]),
            held=fields["held"] and Held(**fields["held"]),
            waited_seconds=fields["waited_seconds"],
            max_held=fields["max_held"],
            blocked_by=tuple(fields["blocked_by"]),
            queued_behind=tuple(fields["queued_behind"]) if "queued_behind" in fields else None,
            waiters=fields["waiters"],
            findings=tuple(fields["findings"]),
            severity=rest.severity,
        )


def _key(fields: Fields) -> AdvisoryKey:
    return AdvisoryKey(fields["classid"], fields["objid"], fields["objsubid"])


def _name(fields: Fields, rest: LockRest) -> Name:
    return Name(
        text=fields["job"],
        source=fields["name_source"],
        scheme=fields["scheme"],
        product=fields["product"],
        job=rest.job,
        scope=rest.scope,
        long_lived=rest.long_lived,
        maybe=rest.maybe,
    )


def _session(fields: Fields, database: str | None) -> Session:
    times = ("backend_start", "xact_start", "query_start", "state_change")
    return Session(**fields | {name: _known(fields[name]) for name in times}, database=database)


def _prepared(fields: Fields) -> Prepared:
    return Prepared(**fields | {"prepared_at": _instant(fields["prepared_at"])})


def _findings(
    documents: Sequence[Fields], rest: Rest, locks: Iterable[tuple[Lock, LockRest]]
) -> Iterator[Finding]:
    about: list[list[Lock]] = [[] for _ in documents]
    for lock, its_rest in locks:
        for number in its_rest.about:
            about[number].append(lock)
    for fields, database, its_locks in zip(documents, rest.found_in, about, strict=True):
        key = fields["key"] and _key(fields["key"])
        groups = [(group, group.keys) for group in _groups(its_locks)]
        yield Finding(**fields | {"key": key}, database=database, about=tuple(groups))


def _groups(locks: Sequence[Lock]) -> Iterator[HoldGroup]:
    """Yield the locks of a finding in groups that differ in nothing but their key."""
    alike = groupby(
        locks, key=lambda lock: (lock.pid, lock.prepared, lock.key.objsubid, lock.mode, lock.granted)
    )
    for (pid, prepared, objsubid, mode, granted), run in alike:
        keys = frozenset(lock.key.classid << 32 | lock.key.objid for lock in run)
        rows = LockRows(pid, "", 0, objsubid, mode, granted, keys)
        yield HoldGroup(rows, keys, (), _NOWHEN, prepared=prepared)


def _instant(text: str) -> Instant:
    return to_instant(datetime.fromisoformat(text))


def _known(text: str | None) -> Instant | None:
    return None if text is None else _instant(text)

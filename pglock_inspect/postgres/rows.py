"""Rows as the server sends them, decoded. What is as it was in the last snapshot is not decoded again."""

from __future__ import annotations

from struct import iter_unpack
from typing import TYPE_CHECKING, Any

from pglock_inspect.model import LockRows, OtherWait, Prepared, Session
from pglock_inspect.schemes import codec_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pglock_inspect.postgres.directory import Directory

    Row = tuple[Any, ...]

_ADVISORY = b"advisory"
_HIDDEN = b"<insufficient privilege>"
_TAKEN_AT = 11  # the first column that is new in every poll
_ARRAY_HEADER = 20  # dimensions, flags, type, length, lower bound: array_send() in arrayfuncs.c


def text(raw: bytes, codec: str = "utf-8") -> str:
    """Return text of another session, with what is not in its encoding shown as escapes."""
    return raw.decode(codec, "backslashreplace")


def is_hidden(row: Row) -> bool:
    """Return whether a row of ``activity.sql`` is of a process that the role may not see at work."""
    return row[13] is None and row[15] == _HIDDEN  # anybody may send such a statement


class LockDecoder:
    """Decodes the rows of ``locks.sql``. What did not change gives the same `LockRows` again."""

    def __init__(self) -> None:
        self._known: dict[Row, tuple[Row, LockRows]] = {}

    def advisory(self, rows: Sequence[Row]) -> tuple[LockRows, ...]:
        """Return the advisory locks of a snapshot."""
        before, self._known = self._known, {}
        locks = []
        for row in rows:
            if row[0] != _ADVISORY:
                continue
            shown = row[1:_TAKEN_AT]
            pid, transaction, *others = shown[:7]
            process = (pid or transaction, *others)  # a session's virtual transaction changes all the time
            known = before.get(process)
            if known is None or known[0] != shown:
                known = (shown, _lock_rows(shown, known))
            self._known[process] = known
            locks.append(known[1])
        return tuple(locks)


def _lock_rows(shown: Row, known: tuple[Row, LockRows] | None) -> LockRows:
    pid, transaction, database, objsubid, mode, granted, waitstart, _, _, raw_keys = shown
    if known and known[0][-1] == raw_keys:
        keys = known[1].keys
    else:
        keys = frozenset(key for (key,) in iter_unpack("!4xQ", raw_keys[_ARRAY_HEADER:]))
        if known and known[1].keys == keys:
            keys = known[1].keys
    return LockRows(pid, text(transaction), database, objsubid, text(mode), granted, keys, waitstart)


class SessionDecoder:
    """Decodes the rows of ``activity.sql``. What did not change gives the same `Session` again."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Row, Session]] = {}
        self._names: tuple[object, ...] = ()

    def sessions(self, rows: Sequence[Row], directory: Directory) -> Mapping[int, Session]:
        """Return the sessions of a snapshot by pid."""
        names = (directory.databases, directory.roles)
        before = self._known if names == self._names else {}
        self._names, self._known = names, {}
        for row in rows:
            known = before.get(row[0])
            self._known[row[0]] = known if known and known[0] == row else (row, _session(row, directory))
        return {pid: session for pid, (_, session) in self._known.items()}


def _session(row: Row, directory: Directory) -> Session:
    (
        pid, database, user, application_name, address, port, state, backend_start, xact_start, query_start,
        state_change, wait_event_type, wait_event, backend_type, xmin_age, query,
    ) = row  # fmt: skip
    known = directory.databases.get(database)
    codec = codec_of(known.encoding) if known else "utf-8"
    hidden = query == _HIDDEN
    return Session(
        pid=pid,
        database=known.name if known else None,
        user=directory.roles.get(user),
        application_name=None if application_name is None else text(application_name, codec),
        client=_client(address, port),
        state=None if state is None else text(state),
        backend_start=backend_start,
        xact_start=xact_start,
        query_start=query_start,
        state_change=state_change,
        wait_event=None if wait_event is None else f"{text(wait_event_type)}/{text(wait_event)}",
        backend_type=None if backend_type is None else text(backend_type),
        xmin_age=xmin_age,
        query=None if hidden or query is None else text(query, codec),
    )


def _client(address: bytes | None, port: int | None) -> str | None:
    if address is None:
        return "local" if port == -1 else None
    host = text(address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def other_waits(rows: Sequence[Row]) -> tuple[OtherWait, ...]:
    """Return who waits for a lock that is not an advisory one."""
    return tuple(
        OtherWait(row[1], text(row[0]), text(row[5]), row[7])
        for row in rows
        if not row[6] and row[0] != _ADVISORY and row[1] is not None
    )


def slots(rows: Sequence[Row]) -> int:
    """Return how many rows of the lock table take a slot of it."""
    return sum(row[9] for row in rows)


def prepared(lock_rows: Sequence[Row], rows: Sequence[Row], directory: Directory) -> Mapping[str, Prepared]:
    """Return the prepared transactions by virtual transaction.

    Before a restart of the server it is still the one of the session that prepared; its transaction id
    stands in a row of its own.
    """
    by_xid = {text(row[8]): text(row[2]) for row in lock_rows if row[8] is not None}
    found = {}
    for xid, gid, prepared_at, owner, database in rows:
        virtual_transaction = by_xid.get(text(xid))
        if virtual_transaction:
            name = directory.databases.get(database)
            found[virtual_transaction] = Prepared(
                text(gid), prepared_at, directory.roles.get(owner), name.name if name else None
            )
    return found

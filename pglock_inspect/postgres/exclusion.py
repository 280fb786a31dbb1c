"""The self-test: whether two sessions exclude each other, and whether they are two."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg

from pglock_inspect.doctor import Exclusion, Trial
from pglock_inspect.postgres.queries import query

if TYPE_CHECKING:
    from collections.abc import Iterator

    Connection = psycopg.Connection[Any]

_SHOWN = """SELECT EXISTS (SELECT FROM pg_catalog.pg_locks
            WHERE locktype = 'advisory' AND objsubid = 1 AND granted
              AND (classid::bigint << 32 | objid::bigint) = %s)"""
_MISSING = (psycopg.errors.UndefinedFunction, psycopg.errors.FeatureNotSupported)


def share_a_session(first: Connection, second: Connection) -> bool | None:
    """Return whether two connections share a session of the server, or one has several; None if unknown."""
    try:
        before = _pid(first)
        with second.transaction():  # it keeps its session until it ends
            return _pid(second) == before or _pid(first) != before
    except psycopg.Error:
        return None


def try_exclusion(first: Connection, second: Connection) -> Exclusion:
    """Have two connections want one lock of either level, on a random key; nothing stays locked.

    Each works in a transaction, since that ties it to one session of the server, even behind a pooler.
    """
    key = secrets.randbits(63)
    try:
        return Exclusion((_session_level(first, second, key), _transaction_level(first, second, key)))
    except psycopg.Error as error:
        said = error.diag.message_primary or "a second session at the same time was not to be had"
        return Exclusion(problem=said, missing=isinstance(error, _MISSING))


def _session_level(first: Connection, second: Connection, key: int) -> Trial:
    take, free = "pg_try_advisory_lock", "pg_advisory_unlock"
    with _transaction(first):
        got = _call(first, take, key)
        try:
            with _transaction(second):
                shown = _is_shown(second, key)
                got_too = _call(second, take, key)
                if got_too:
                    _call(second, free, key)
        finally:
            freed = _call(first, free, key)
        with _transaction(second):
            after = _call(second, take, key)
            if after:
                _call(second, free, key)
    return Trial("session", got, shown, got_too, freed, after)


def _transaction_level(first: Connection, second: Connection, key: int) -> Trial:
    take = "pg_try_advisory_xact_lock"
    with _transaction(second):
        with _transaction(first):
            got = _call(first, take, key)
            shown = _is_shown(second, key)
            got_too = _call(second, take, key)
        after = _call(second, take, key)
    return Trial("transaction", got, shown, got_too, released=True, after=after)


def _call(connection: Connection, function: str, key: int) -> bool:
    row = connection.execute(f"SELECT pg_catalog.{function}(%s::bigint)".encode(), [key]).fetchone()
    return bool(row and row[0])


def _is_shown(connection: Connection, key: int) -> bool:
    row = connection.execute(_SHOWN, [key]).fetchone()
    return bool(row and row[0])


def _pid(connection: Connection) -> int:
    row = connection.execute("SELECT pg_catalog.pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


@contextmanager
def _transaction(connection: Connection) -> Iterator[None]:
    with connection.transaction():
        connection.execute(query("brief"), [True])
        yield


@contextmanager
def hanging_up(*connections: Connection, after: float) -> Iterator[None]:
    """Break connections off that are still busy after so many seconds, one after the other.

    A pooler that has no session left keeps a statement waiting, and no time-out of the server ends that.
    """
    timer = threading.Timer(after, _hang_up, connections)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(*connections: Connection) -> None:
    for connection in connections:
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)

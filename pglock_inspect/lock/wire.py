"""Asking a server, apart from waiting: generators for psycopg's `wait()`, sync or async."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import generators
from psycopg.pq import ExecStatus

from pglock_inspect.errors import UsedAfterFork

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn, PGresult

AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

_MOST_PREPARED = 100  # on one connection
_prepared: WeakKeyDictionary[PGconn, dict[Hashable, bytes]] = WeakKeyDictionary()
_numbers = count()


def ask(connection: AnyConnection, *statements: str) -> PQGen[list[PGresult]]:
    """Send statements in one round trip and return their results, or raise psycopg's error."""
    connection.pgconn.send_query(";".join(statements).encode())
    return (yield from _results(connection))


def ask_again(
    connection: AnyConnection, form: Hashable, text: Callable[[], str], *values: int, prepare: bool = True
) -> PQGen[PGresult]:
    """Ask a statement, with int4 values, that will be asked again: prepare it in the same round trip.

    Not so through a pooler, where what is prepared may outlive the connection. `form` stands for the text.
    """
    pgconn, names = connection.pgconn, _prepared.setdefault(connection.pgconn, {})
    numbers = [b"%d" % value for value in values]
    if name := prepare and names.get(form):
        pgconn.send_query_prepared(name, numbers)
        try:
            return (yield from _results(connection))[-1]
        except psycopg.errors.InvalidSqlStatementName:  # DEALLOCATE ALL or DISCARD ALL came between
            del names[form]
    if not prepare or connection.prepare_threshold is None or len(names) >= _MOST_PREPARED:
        pgconn.send_query_params(text().encode(), numbers)
        return (yield from _results(connection))[-1]
    new = f"pglock_{next(_numbers)}"
    literals = f"({', '.join(map(str, values))})" if values else ""
    results = yield from ask(connection, f"PREPARE {new} AS {text()}", f"EXECUTE {new}{literals}")
    names[form] = new.encode()
    return results[-1]


def _results(connection: AnyConnection) -> PQGen[list[PGresult]]:
    results: list[PGresult] = yield from generators.execute(connection.pgconn)
    if results[-1].status == ExecStatus.FATAL_ERROR:
        raise psycopg.errors.error_from_result(results[-1], encoding=connection.info.encoding)
    return results


# Two processes garble each other's words on one socket. That a connection came through a fork is told by its
# socket's inode and device: neither libpq nor psycopg knows who opened it.
_inherited: set[tuple[int, ...]] = set()


def _note_inherited() -> None:
    with suppress(OSError), os.scandir("/dev/fd") as descriptors:
        _inherited.update(descriptor.stat()[1:3] for descriptor in descriptors)


os.register_at_fork(after_in_child=_note_inherited)


def refuse_after_fork(pgconn: PGconn) -> None:
    """Raise UsedAfterFork for a connection that the parent process opened."""
    if not _inherited:
        return
    with suppress(OSError, psycopg.OperationalError):  # it is closed
        if os.fstat(pgconn.socket)[1:3] in _inherited:
            raise UsedAfterFork("the connection is the parent process's: connect anew after a fork")


def end_session(pgconn: PGconn) -> None:
    """Have the server release everything, as it does at the end of a session."""
    with suppress(UsedAfterFork):  # that session is the parent's
        refuse_after_fork(pgconn)
        pgconn.finish()

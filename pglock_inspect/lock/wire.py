"""Asking a server, apart from waiting: generators for psycopg's `wait()`, sync or async."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg import generators
from psycopg.pq import ExecStatus, PipelineStatus, TransactionStatus as Status

from pglock_inspect.errors import InTransaction, UsedAfterFork

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn, PGresult

AnyConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

_MOST_PREPARED = 100  # on one connection
_prepared: WeakKeyDictionary[PGconn, dict[Hashable, str]] = WeakKeyDictionary()
_numbers = count()


def ask(connection: AnyConnection, *statements: str) -> PQGen[list[PGresult]]:
    """Send the statements in one round trip and return their results, or raise psycopg's error."""
    refuse_after_fork(connection.pgconn)
    connection.pgconn.send_query(";".join(statements).encode())
    return (yield from _results(connection))


def ask_again(
    connection: AnyConnection, form: Hashable, text: Callable[[str], str], number: int | None = None
) -> PQGen[PGresult]:
    """Ask one statement that will be asked again, and prepare it in the same round trip.

    `form` stands for the statement without its parameter, an int; `text` writes it with that.
    """
    names, literal = _prepared.setdefault(connection.pgconn, {}), str(number)
    if form in names:
        refuse_after_fork(connection.pgconn)
        parameters = None if number is None else [literal.encode()]
        connection.pgconn.send_query_prepared(names[form].encode(), parameters)
        try:
            return (yield from _results(connection))[-1]
        except psycopg.errors.InvalidSqlStatementName:  # DEALLOCATE ALL or DISCARD ALL came between
            del names[form]
    if connection.prepare_threshold is None or len(names) >= _MOST_PREPARED:
        return (yield from ask(connection, text(literal)))[-1]
    name = f"pglock_{next(_numbers)}"
    types, values = ("", "") if number is None else ("(int)", f"({literal})")
    results = yield from ask(connection, f"PREPARE {name}{types} AS {text('$1')}", f"EXECUTE {name}{values}")
    names[form] = name
    return results[-1]


def _results(connection: AnyConnection) -> PQGen[list[PGresult]]:
    results: list[PGresult] = yield from generators.execute(connection.pgconn)
    if results[-1].status == ExecStatus.FATAL_ERROR:
        raise psycopg.errors.error_from_result(results[-1], encoding=connection.info.encoding)
    return results


def refuse_unless_idle(pgconn: PGconn) -> None:
    """Raise InTransaction for a connection that is in a transaction or busy."""
    if pgconn.pipeline_status != PipelineStatus.OFF or pgconn.transaction_status == Status.ACTIVE:
        raise InTransaction(
            "the connection is busy with a pipeline, a COPY or a stream: end that before locking"
        )
    if pgconn.transaction_status in (Status.INTRANS, Status.INERROR):
        raise InTransaction("the connection is in a transaction: commit or roll back before locking")


# Two processes garble each other's words on one socket. That a connection came through a fork is told by its
# socket's inode: neither libpq nor psycopg knows who opened it.
_inherited: frozenset[tuple[int, int]] = frozenset()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _note_inherited() -> None:
    global _inherited  # noqa: PLW0603  (once, as the new process begins)
    with suppress(OSError), os.scandir("/dev/fd") as descriptors:
        _inherited = frozenset(_identity(descriptor.stat()) for descriptor in descriptors)


os.register_at_fork(after_in_child=_note_inherited)


def refuse_after_fork(pgconn: PGconn) -> None:
    """Raise UsedAfterFork for a connection that the parent process opened."""
    if not _inherited:
        return
    with suppress(OSError, psycopg.OperationalError):  # it is closed
        if _identity(os.fstat(pgconn.socket)) in _inherited:
            raise UsedAfterFork("the connection is the parent process's: connect anew after a fork")


def end_session(pgconn: PGconn) -> None:
    """Have the server release everything, as it does at the end of a session."""
    with suppress(UsedAfterFork):  # that session is the parent's
        refuse_after_fork(pgconn)
        pgconn.finish()

"""What went wrong with a server, in one sentence for a person and one word for a metric."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import psycopg
from psycopg import errors as pg

from pglock_inspect.errors import ServerFailure

if TYPE_CHECKING:
    from pglock_inspect.errors import FailureReason

# A refused login reaches libpq's callers as text only, without its SQLSTATE.
_BY_TEXT: tuple[tuple[FailureReason, re.Pattern[str]], ...] = (
    ("connect", re.compile(r"expected authentication request")),  # whoever answers is no PostgreSQL
    ("lock_table_full", re.compile(r"out of shared memory")),
    (
        "too_many_connections",
        re.compile(
            r"too many (?:clients|connections)|connection slots are reserved|no more connections allowed"
            r"|sorry, too many"
        ),
    ),
    (
        "auth",
        re.compile(r"authentication|password|pg_hba\.conf|role \"|is not permitted to log in|SASL"),
    ),
    ("timeout", re.compile(r"timeout|timed out|canceling statement due to", re.IGNORECASE)),
    ("other", re.compile(r"client.encoding")),  # CockroachDB has none but UTF8
)
# What PostgreSQL, in a version that is supported, has and understands.
_STRANGE = (
    *(pg.UndefinedFunction, pg.UndefinedTable, pg.UndefinedColumn, pg.UndefinedObject, pg.InvalidSchemaName),
    *(pg.FeatureNotSupported, pg.SyntaxError, pg.DatatypeMismatch),
)
_PREAMBLE = re.compile(
    r"^consuming input failed: "
    r"|^connection (?:failed|is bad): (?:connection to server (?:at|on socket) .*? failed: )?"
)
_BY_CLASS: tuple[tuple[FailureReason, tuple[type[Exception], ...]], ...] = (
    ("timeout", (pg.ConnectionTimeout, pg.QueryCanceled, pg.LockNotAvailable)),
    ("too_many_connections", (pg.TooManyConnections,)),
    ("auth", (pg.InvalidAuthorizationSpecification, pg.InvalidPassword)),
)
_ADVICE: dict[FailureReason, str] = {
    "connect": "check that the server runs there and that this host may reach it",
    "auth": "check user, password (PGPASSWORD, ~/.pgpass) and the server's pg_hba.conf",
    "timeout": "check the network and the server's load, or allow more time with connect_timeout",
    "login_hangs": "see in a session that is still open whether somebody keeps pg_authid or another catalog "
    "locked: SELECT pid FROM pg_locks WHERE granted AND mode = 'AccessExclusiveLock' AND relation < 16384",
    "lock_table_full": "end sessions that hold many locks, or raise max_locks_per_transaction and restart",
    "too_many_connections": "close connections, or give the watching role a reserved one",
    "other": "check the server's log",
}
_BE_POSTGRES = "check that it is PostgreSQL itself, 12 or newer: SELECT version()"

# Where the reason alone would mislead.
_ADVICE_BY_TEXT = (
    (
        re.compile(r"database .* does not exist"),
        "check the name of the database (psql -l lists them)",
    ),
    (
        re.compile(r"not currently accepting connections"),
        "connect to another database: the locks of all are seen from each",
    ),
    (
        re.compile(r"the database system is (?:starting up|in recovery mode|not yet accepting)"),
        "it takes connections again by itself; its log tells how far it is",
    ),
    (re.compile(r"client.encoding"), _BE_POSTGRES),
    (  # of each host that was reached, as it is until a failover has come to its end
        re.compile(r"(?:is|is not) in hot standby|session is (?:not )?read-only"),
        "wait for the end of a failover, or correct target_session_attrs",
    ),
    (  # what was asked for, and libpq or this server does not have
        re.compile(
            r"connection is bad: (?!connection to server)|bad value for|parameter \"|SSL was required"
            r"|requirement \"|could not match \d+ port"
        ),
        "correct the connection string or the PG* variables",
    ),
)


def failure_of(error: psycopg.Error, action: str, *, connecting: bool) -> ServerFailure:
    """Return what to raise for an error of psycopg while trying to do ``action``."""
    reason = _reason(error, connecting=connecting)
    advice = _advice(reason, error, connecting=connecting)
    return ServerFailure(f"cannot {action}: {_said(error)}; {advice}", reason)


def unlike_postgres(action: str) -> ServerFailure:
    """Return what to raise where the answer to ``action`` is none that PostgreSQL gives."""
    return ServerFailure(f"cannot {action}: it answers as PostgreSQL does not; {_BE_POSTGRES}", "other")


def login_hangs(place: str) -> ServerFailure:
    """Return what to raise where a server is there, and a login does not come to an end."""
    return ServerFailure(
        f"cannot connect to {place}: the server answers, but the login hangs; {_ADVICE['login_hangs']}",
        "login_hangs",
    )


def _reason(error: psycopg.Error, *, connecting: bool) -> FailureReason:
    text = str(error)
    if isinstance(error, pg.OutOfMemory):
        return "lock_table_full" if "shared memory" in text else "other"
    for reason, classes in _BY_CLASS:
        if isinstance(error, classes):
            return reason
    if connecting:
        for reason, pattern in _BY_TEXT:
            if pattern.search(text):
                return reason
    lost = (
        isinstance(error, (pg.AdminShutdown, pg.CrashShutdown, pg.CannotConnectNow)) or error.sqlstate is None
    )
    return "connect" if lost else "other"


def _advice(reason: FailureReason, error: psycopg.Error, *, connecting: bool) -> str:
    if isinstance(error, pg.InsufficientPrivilege):
        return "grant that to this role: everybody has it unless it is revoked"
    if isinstance(error, _STRANGE):
        return _BE_POSTGRES
    if connecting:
        for pattern, advice in _ADVICE_BY_TEXT:
            if pattern.search(str(error)):
                return advice
    return _ADVICE[reason]


def _said(error: psycopg.Error) -> str:
    """Return what libpq or the server said, on one line."""
    message = error.diag.message_primary or str(error)
    lines = [line.strip() for line in message.splitlines()]
    first = next((line for line in lines if line), type(error).__name__)
    return _PREAMBLE.sub("", first).rstrip(".:")


def bad_conninfo(error: psycopg.ProgrammingError) -> str:
    """Return what is wrong with a connection string, without any part of it: it may hold a password."""
    return re.sub(r'"[^"]*"', '"…"', _said(error))

"""Measuring a server and the way to it, for ``doctor``."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg

from pglock_inspect.doctor import Exclusion, Measured, Override, Setting, relative_of
from pglock_inspect.errors import ServerFailure
from pglock_inspect.model import Instant, to_datetime
from pglock_inspect.postgres.connection import connect, where
from pglock_inspect.postgres.exclusion import hanging_up, share_a_session, try_exclusion
from pglock_inspect.postgres.failures import failure_of, unlike_postgres
from pglock_inspect.postgres.queries import query
from pglock_inspect.postgres.rows import text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LIMITS = ["max_connections", "superuser_reserved_connections", "reserved_connections"]
_TIMEOUTS = [
    *("tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"),
    *("client_connection_check_interval", "idle_session_timeout", "idle_in_transaction_session_timeout"),
    *("transaction_timeout", "statement_timeout", "lock_timeout"),
]
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}
_LOOKS_AT_CLOCK = 3
_PATIENCE = 5  # seconds, for a server that has answered already


def measure(dsn: str, *, wall: Callable[[], float] = time.time, patience: float = 3.0) -> Measured:
    """Return what can be measured with two sessions that last for a moment; nothing is left of them.

    ``wall`` is the clock here, in seconds since 1970. A second session that does not answer within
    ``patience`` seconds is given up. Raises `BadConnectionString`, and `ServerFailure` where there is none.
    """
    try:
        return _measured(dsn, wall, patience)
    except ServerFailure as failure:
        raise _told_apart(failure, dsn) from None


def _measured(dsn: str, wall: Callable[[], float], patience: float) -> Measured:
    with closing(_session(dsn)) as connection:
        try:
            row = connection.execute(query("examine_session"), binary=True).fetchone()
        except psycopg.Error as error:
            raise failure_of(error, f"examine the server at {where(dsn)}", connecting=False) from None
        if row is None or None in row:
            raise unlike_postgres(f"examine the server at {where(dsn)}")
        product, role, pid, network = row
        ahead, ahead_error = _clock(connection, wall)
        in_recovery, may_signal, connections = _rights(connection)
        settings, overrides = _settings(connection), _overrides(connection)
        shared, exclusion = _two_sessions(dsn, connection, patience)
        return Measured(
            product=text(product),
            role=text(role),
            login_pid=connection.info.backend_pid,
            pid=pid,
            shared=shared,
            network=network,
            in_recovery=in_recovery,
            may_signal=may_signal,
            connections=connections,
            ahead=ahead,
            ahead_error=ahead_error,
            settings=settings,
            overrides=overrides,
            exclusion=exclusion,
        )


def _told_apart(failure: ServerFailure, dsn: str) -> ServerFailure:
    """Return a failure that names the product, where the server answers and is a known other one."""
    if failure.reason != "other":
        return failure
    try:
        with psycopg.connect(dsn, autocommit=True, connect_timeout=_PATIENCE) as connection:
            row = connection.execute("SELECT version()").fetchone()
    except psycopg.Error:
        return failure
    relative = relative_of(str(row[0])) if row else None
    if relative is None:
        return failure
    return ServerFailure(
        f"cannot examine the server at {where(dsn)}: it is {relative.name}, not PostgreSQL itself: "
        f"{relative.locks}; {relative.fix}",
        failure.reason,
    )


def _session(dsn: str) -> psycopg.Connection[Any]:
    connection = connect(dsn)
    connection.prepare_threshold = None  # a pooler may hand what is prepared to another client
    return connection


def _two_sessions(dsn: str, first: psycopg.Connection[Any], patience: float) -> tuple[bool | None, Exclusion]:
    try:
        # The second one first: it may wait for the very session that the first one would leave to it.
        with closing(_session(dsn)) as second, hanging_up(second, first, after=patience):
            shared = share_a_session(first, second)
            return shared, try_exclusion(first, second)
    except ServerFailure as failure:
        return None, Exclusion(problem=str(failure))


def _clock(connection: psycopg.Connection[Any], wall: Callable[[], float]) -> tuple[float | None, float]:
    """Return the seconds by which the server's clock is ahead of ours, and how wrong that may be at most."""
    looks = []
    for _ in range(_LOOKS_AT_CLOCK):
        before = wall()
        rows = _rows(connection, b"SELECT pg_catalog.clock_timestamp()")
        after = wall()
        if not rows or rows[0][0] is None:
            return None, 0.0
        server = to_datetime(Instant(rows[0][0])).timestamp()
        looks.append((server - (before + after) / 2, (after - before) / 2))
    return min(looks, key=lambda look: look[1])


def _rights(connection: psycopg.Connection[Any]) -> tuple[bool | None, bool | None, int | None]:
    rows = _rows(connection, query("examine_rights").encode())
    return rows[0] if rows else (None, None, None)


def _settings(connection: psycopg.Connection[Any]) -> Mapping[str, Setting]:
    names = {"names": [*_LIMITS, *_TIMEOUTS, "track_activities"]}
    return {
        text(name): Setting(_number(value, unit), _number(default, unit))
        for name, value, unit, default in _rows(connection, query("examine_settings").encode(), names)
    }


def _number(written: bytes, unit: bytes | None) -> float:
    if written in (b"on", b"off"):
        return float(written == b"on")
    return int(written) * (_UNITS[text(unit)] if unit else 1.0)


def _overrides(connection: psycopg.Connection[Any]) -> tuple[Override, ...]:
    rows = _rows(connection, query("examine_overrides").encode(), {"names": _TIMEOUTS})
    return tuple(
        Override(role and text(role), database and text(database), text(setting))
        for role, database, setting in rows
    )


def _rows(connection: psycopg.Connection[Any], statement: bytes, parameters: Any = None) -> list[Any]:  # noqa: ANN401
    """Return rows, or none where the server does not know what is asked for."""
    try:
        return connection.execute(statement, parameters, binary=True).fetchall()
    except psycopg.Error:
        return []

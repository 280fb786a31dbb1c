"""Signalling a process, if it still is what a person was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from pglock_inspect.errors import Refused
from pglock_inspect.kill import Seen
from pglock_inspect.model import to_datetime
from pglock_inspect.postgres.failures import failure_of
from pglock_inspect.postgres.queries import query
from pglock_inspect.postgres.rows import text

if TYPE_CHECKING:
    from datetime import datetime

    from pglock_inspect.kill import Order
    from pglock_inspect.model import Instant
    from pglock_inspect.postgres.reader import Reader


def act(reader: Reader, order: Order, *, dry: bool = False) -> Seen:
    """Carry out an order in one statement of the reader's session; ``dry`` only looks.

    The process is signalled if it holds the key, or waits for it, as it was shown, and if ``backend_start``
    and, unless it is ``at_work``, ``state_change`` are what they were, as far as this role is shown them. It
    works while the lock table is full. Raises `Refused` where the role may not signal the process, and
    `ServerFailure`.
    """
    try:
        sources = {name: sql.SQL(source) for name, source in reader.sources.items()}
        row = reader.connection.execute(
            sql.SQL(query("kill")).format(**sources), _parameters(reader, order, dry=dry), binary=True
        ).fetchone()
    except psycopg.errors.InsufficientPrivilege as error:
        raise _denied(reader, order, error) from None
    except psycopg.Error as error:
        raise failure_of(error, f"{order.action} pid {order.pid}", connecting=False) from None
    assert row is not None
    lives, holds, waits, others, backend_start, state_change, signalled = row
    return Seen(lives, holds, waits, tuple(others or ()), backend_start, state_change, signalled)


def _parameters(reader: Reader, order: Order, *, dry: bool) -> dict[str, object]:
    lock = order.lock
    return {
        "pid": order.pid,
        "database": next(
            (oid for oid, known in reader.databases.items() if known.name == lock.database), None
        ),
        **lock.key._asdict(),
        "mode": lock.mode,
        "granted": lock.granted,
        "backend_start": _timestamp(order.backend_start),
        "state_change": _timestamp(order.state_change),
        "at_work": order.at_work,
        "action": None if dry else order.action,
    }


def _timestamp(instant: Instant | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)


def _denied(reader: Reader, order: Order, error: psycopg.Error) -> Refused:
    """Return what to say of a process that this role may not signal."""
    try:
        row = reader.connection.execute(query("kill_denied"), {"pid": order.pid}, binary=True).fetchone()
    except psycopg.Error:  # a full lock table lets nobody look up a role
        row = None
    if row is None:
        return Refused(f"the server refused: {error.diag.message_primary}")
    supers_only, owner, asking = row
    if supers_only:
        whose = f"belongs to superuser {text(owner)}" if owner else "belongs to the server itself"
        return Refused(f"{order.who} {whose}: only a superuser may run {order.sql}")
    role = text(asking)
    return Refused(
        f"role {role} may not signal sessions of role {text(owner)}: GRANT pg_signal_backend TO {role}, "
        f"or let a superuser run {order.sql}"
    )

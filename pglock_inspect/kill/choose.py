"""Who is meant by a pid, a job or a key, and whether that can be done to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.errors import Refused
from pglock_inspect.findings import words
from pglock_inspect.kill.order import Action, Order, called

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.model import Lock, Prepared, Report

_MOST_LISTED = 5


def order_for_process(report: Report, pid: int, wanted: Action | None) -> Order:
    """Return the order that a person gives with a pid. Raises `Refused`."""
    locks = sorted((lock for lock in report.locks if lock.pid == pid), key=lambda lock: not lock.findings)
    held = [lock for lock in locks if lock.granted]
    waiting = [lock for lock in locks if not lock.granted]
    if not locks:
        raise Refused(f"pid {pid} neither holds an advisory lock nor waits for one: nothing was done")
    if held and waiting and wanted is None:
        raise Refused(
            f"{words.process(pid, held[0].session)} holds {called(held[0])} and waits for "
            f"{called(waiting[0])}: say --terminate to end it, or --cancel to end its wait"
        )
    if waiting and wanted != "terminate":
        return Order("cancel", waiting[0], report.taken_at, len(held))
    if wanted == "cancel":
        raise Refused(_cannot_cancel(held[0]))
    return Order("terminate", (held or waiting)[0], report.taken_at, len(held))


def order_for_holder(report: Report, locks: Sequence[Lock], text: str, wanted: Action | None) -> Order:
    """Return the order that a person gives with a job or a key, whose locks are given. Raises `Refused`."""
    holders = list({_process(lock): lock for lock in locks if lock.granted}.values())
    waiters = [lock for lock in locks if not lock.granted]
    if not holders:
        raise Refused(f"nobody holds {text!r}: nothing was done{_waiters(waiters)}")
    if len(holders) > 1:
        raise Refused(f"{text!r} is held by {listed(holders)}: name one of them, as in pid:N")
    holder = holders[0]
    if wanted == "cancel":
        raise Refused(_cannot_cancel(holder) + _waiters(waiters))
    if holder.prepared:
        raise Refused(
            f"{called(holder)} is held by prepared transaction {holder.prepared.gid!r}, which no signal "
            f"reaches: in database {holder.prepared.database or 'unknown'}, run the statement printed here "
            "(or COMMIT PREPARED, if its work is wanted)",
            instead=rollback(holder.prepared),
        )
    if holder.pid is None:
        raise Refused(f"{called(holder)} is held by a prepared transaction that is ending: look again")
    held = sum(lock.granted and lock.pid == holder.pid for lock in report.locks)
    return Order("terminate", holder, report.taken_at, held)


def rollback(prepared: Prepared) -> str:
    """Return the SQL that ends a prepared transaction, and where to run it."""
    gid = prepared.gid.replace("'", "''")
    return f"ROLLBACK PREPARED '{gid}';  -- in database {' '.join((prepared.database or 'unknown').split())}"


def listed(locks: Sequence[Lock]) -> str:
    """Return who holds or waits, as far as a sentence has room."""
    more = f" and {len(locks) - _MOST_LISTED} more" if len(locks) > _MOST_LISTED else ""
    return ", ".join(map(_owner, locks[:_MOST_LISTED])) + more


def _owner(lock: Lock) -> str:
    if lock.prepared:
        return f"prepared transaction {lock.prepared.gid!r}"
    return words.process(lock.pid, lock.session) if lock.pid is not None else "a prepared transaction"


def _process(lock: Lock) -> int | str | None:
    return lock.prepared.gid if lock.prepared else lock.pid


def _waiters(waiters: Sequence[Lock]) -> str:
    return f"; to make a waiter give up, name it with --cancel: {listed(waiters)}" if waiters else ""


def _cannot_cancel(holder: Lock) -> str:
    if holder.pid is None:
        return (
            f"{called(holder)} is held by a prepared transaction, which runs nothing that could be cancelled"
        )
    effect = "would break off its work, and leave it the lock if of session level"
    if holder.session and holder.session.idle:
        effect = f"would change nothing, since it is {holder.session.state}"
    return f"{_owner(holder)} holds {called(holder)}: pg_cancel_backend {effect}; --terminate ends it"

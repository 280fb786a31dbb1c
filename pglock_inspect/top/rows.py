"""Which locks are shown, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.model import SEVERITIES
from pglock_inspect.present.columns import label

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Lock

_RANK = {None: 0} | {severity: rank for rank, severity in enumerate(SEVERITIES, start=1)}


class Identity(NamedTuple):
    """What makes a lock the same lock in two reports; a waiter that got its lock is still the same."""

    key: AdvisoryKey
    database: str | None
    mode: str
    holder: int | str | None


def identity(lock: Lock) -> Identity:
    """Return what to find a lock by in the next report."""
    return Identity(lock.key, lock.database, lock.mode, lock.prepared.gid if lock.prepared else lock.pid)


def index_of(wanted: Identity, locks: Iterable[Lock]) -> int | None:
    """Return where the lock of an identity stands; None where it does not."""
    for index, lock in enumerate(locks):
        if lock.key == wanted.key and identity(lock) == wanted:
            return index
    return None


def arrange(locks: Iterable[Lock]) -> list[Lock]:
    """Return the locks worst first, then holders before waiters, then longest first; equals never swap."""
    return sorted(locks, key=_order)


def matching(locks: Sequence[Lock], text: str) -> Sequence[Lock]:
    """Return those whose job, user, application or database contains ``text``, in any case."""
    wanted = text.strip().casefold()
    return [lock for lock in locks if wanted in _searched(lock)] if wanted else locks


def same_key(lock: Lock, locks: Iterable[Lock]) -> list[Lock]:
    """Return all locks on the key of ``lock``, itself included."""
    return [other for other in locks if other.key == lock.key and other.database == lock.database]


def _order(lock: Lock) -> tuple[int, bool, float, str, AdvisoryKey, str, int, str]:
    seconds = lock.held.seconds if lock.held else lock.waited_seconds
    return (
        -_RANK[lock.severity],
        not lock.granted,
        1.0 if seconds is None else -seconds,
        lock.database or "",
        lock.key,
        lock.mode,
        lock.pid or 0,
        lock.prepared.gid if lock.prepared else "",
    )


def _searched(lock: Lock) -> str:
    session = lock.session
    parts = [label(lock), lock.database]
    if session:
        parts += [session.user, session.application_name]
    if lock.prepared:
        parts += [lock.prepared.owner, lock.prepared.gid]
    return "\n".join(filter(None, parts)).casefold()

"""Locks as rows: what they are found again by, and which come first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.model import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def arrange(locks: Iterable[Lock]) -> list[Lock]:
    """Return the locks worst first, then holders before waiters, then longest first; equals never swap."""
    return sorted(locks, key=worst_first)


def same_key(lock: Lock, locks: Iterable[Lock]) -> list[Lock]:
    """Return all locks on the key of ``lock``, itself included."""
    return [other for other in locks if other.key == lock.key and other.database == lock.database]


def seconds_of(lock: Lock) -> float | None:
    """Return how long a lock has been held, or waited for."""
    return lock.held.seconds if lock.held else lock.waited_seconds


def worst_first(lock: Lock) -> tuple[int, bool, float, str, AdvisoryKey, str, int, str]:
    """Return what `arrange` sorts by."""
    seconds = seconds_of(lock)
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

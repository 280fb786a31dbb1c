"""Who is ahead of whom, where the lock table's rows do not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pglock_inspect.postgres.queries import query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import psycopg

    from pglock_inspect.model import LockRows, OtherWait

    Blocking = dict[int, tuple[int, ...]]

_MOST_ASKED = 64


def ask_who_blocks(
    cursor: psycopg.Cursor[Any],
    locks: Sequence[LockRows],
    other_waits: Sequence[OtherWait],
) -> Mapping[int, tuple[int, ...]]:
    """Return what blocks index builds, blocked holders down to their root, and waiters in a queue of several.

    The holders that conflict with a lone waiter follow from the rows, so most polls ask nothing.
    """
    waiting = {wait.pid for wait in other_waits}
    waiting |= {rows.pid for rows in locks if rows.pid is not None and not rows.granted}
    asked: Blocking = {}
    pids = list(dict.fromkeys([*_builds(other_waits), *_blocked_holders(locks, waiting), *_queued(locks)]))
    while pids and len(asked) < _MOST_ASKED:
        answers = _blocking(cursor, pids[: _MOST_ASKED - len(asked)])
        asked |= answers
        blockers = {pid for answer in answers.values() for pid in answer}
        pids = sorted((blockers & waiting) - asked.keys())
    return asked


def _blocking(cursor: psycopg.Cursor[Any], pids: Sequence[int]) -> Blocking:
    cursor.execute(query("blocking"), (list(pids),))
    return {pid: tuple(dict.fromkeys(blockers)) for pid, blockers in cursor.fetchall()}


def _queued(locks: Sequence[LockRows]) -> Iterable[int]:
    queues: dict[tuple[int, int, int], list[int]] = {}
    for rows in locks:
        if not rows.granted and rows.pid is not None:
            for key in rows.keys:
                queues.setdefault((rows.database, rows.objsubid, key), []).append(rows.pid)
    return (pid for queue in queues.values() if len(queue) > 1 for pid in queue)


def _blocked_holders(locks: Sequence[LockRows], waiting: set[int]) -> Iterable[int]:
    return sorted({rows.pid for rows in locks if rows.granted and rows.pid is not None} & waiting)


def _builds(other_waits: Sequence[OtherWait]) -> Iterable[int]:
    """Yield who waits for others' transactions to end, as CREATE INDEX CONCURRENTLY and its like do."""
    return (wait.pid for wait in other_waits if wait.locktype == "virtualxid")

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.support.sides import Async, Side, Sync
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.support.servers import Connection

Locks = list[tuple[int, int, int, str]]


def advisory_locks(session: Connection) -> Locks:
    """Return (classid, objid, objsubid, mode) of all that is held, in any session."""
    return session.execute(
        """SELECT classid::bigint, objid::bigint, objsubid, mode FROM pg_locks
           WHERE locktype = 'advisory' AND granted ORDER BY objsubid"""
    ).fetchall()


def held_by(session: Connection, pid: int) -> Locks:
    """Return what a session holds, or waits for."""
    return session.execute(
        """SELECT classid::bigint, objid::bigint, objsubid, mode FROM pg_locks
           WHERE locktype = 'advisory' AND pid = %s ORDER BY objsubid""",
        [pid],
    ).fetchall()


@contextmanager
def locked_by_hand(session: Connection, arguments: str) -> Iterator[None]:
    """Hold a lock as SQL by hand does."""
    session.execute(f"SELECT pg_advisory_lock({arguments})".encode())
    yield
    session.execute("SELECT pg_advisory_unlock_all()")


def compete(connections: Sequence[Connection | str], run: Callable[..., bool]) -> list[bool]:
    """Let threads with these connections race for one lock; whoever gets it holds it until all have tried."""
    start = threading.Barrier(len(connections))
    outcomes: list[bool] = []

    def job() -> None:
        wait_until(lambda: len(outcomes) == len(connections) - 1, "all others have tried")

    def replica(connection: Connection | str) -> None:
        start.wait()
        outcomes.append(run(connection, "send_daily_digest", job))

    with ThreadPoolExecutor(len(connections)) as threads:
        list(threads.map(replica, connections))
    return outcomes


@pytest.fixture(params=[Sync, Async])
def side(request: pytest.FixtureRequest, janitor: Connection) -> Iterator[Side]:
    """The helper, sync and async; after the test, nothing may be locked by a session that lives on."""
    side: Side = request.param()
    yield side
    wait_until(lambda: not advisory_locks(janitor), "nothing is locked", timeout=2)
    side.close()

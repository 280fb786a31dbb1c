"""Under churn a guarded kill never hits a session that had moved on before the statement began.

The witness is independent of what is tested. The victim notes on the server's clock when it took the lock
and when it let go of it, in sequences, which neither a rollback nor a kill undoes; the server notes when the
statement that killed it began.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Self

import psycopg
import pytest

from pglock_inspect.cli.acting import act_on
from pglock_inspect.errors import Refused
from pglock_inspect.kill import order_for_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.kill import Order
    from pglock_inspect.model import Report
    from pglock_inspect.watch import Watcher
    from tests.support.servers import Connection
    from tests.support.watching import Watch

KILLS = 200
NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
TAKE = f"pg_advisory_lock(42), setval('pglock_taken', {NOW})"
FREE = f"pg_advisory_unlock(42), setval('pglock_freed', {NOW})"
WITNESS = """SELECT pglock_taken.last_value, pglock_freed.last_value,
                    (extract(epoch FROM query_start) * 1000000)::bigint
             FROM pglock_taken, pglock_freed, pg_stat_activity WHERE pid = %s"""


class Victim:
    """Takes the lock, lets go of it and takes another, over and over, in one statement or in several."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._ends = False
        self._thread = threading.Thread(target=self._live)
        self.dead = threading.Event()
        self.born_again = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends = True
        self.born_again.set()
        self._thread.join()

    def _live(self) -> None:
        while not self._ends:
            try:
                with psycopg.connect(self._dsn, autocommit=True) as connection:
                    while not self._ends:
                        self._work(connection)
            except psycopg.OperationalError:
                self.dead.set()
                self.born_again.wait()
                self.born_again.clear()

    @staticmethod
    def _work(connection: Connection) -> None:
        pause = 0.001 * 20 ** random.random()  # seconds; long ones are hit, short ones are not
        go_on = f"pg_advisory_lock(43), pg_sleep({pause}), pg_advisory_unlock(43)"
        if random.random() < 0.5:
            connection.execute(f"SELECT {TAKE}, pg_sleep({pause}), {FREE}, {go_on}".encode())
        else:
            connection.execute(f"SELECT {TAKE}".encode())
            time.sleep(pause)
            connection.execute(f"SELECT {FREE}".encode())
            connection.execute(f"SELECT {go_on}".encode())


@pytest.fixture
def sequences(janitor: Connection) -> Iterator[None]:
    janitor.execute("CREATE SEQUENCE pglock_taken; CREATE SEQUENCE pglock_freed")
    yield
    janitor.execute("DROP SEQUENCE pglock_taken; DROP SEQUENCE pglock_freed")


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "as --yes does"])
@pytest.mark.usefixtures("sequences")
def test_nobody_is_hit_who_had_moved_on(
    dsn: str, watch: Watch, janitor: Connection, *, persistent: bool
) -> None:
    watcher, outcomes = watch(), Counter[bool]()
    with Victim(dsn) as victim:
        while outcomes.total() < KILLS or min(outcomes[True], outcomes[False]) < KILLS / 10:
            assert outcomes.total() < 10 * KILLS, outcomes
            report, pid = shown(watcher, victim)
            shown_by = server_clock(janitor)
            time.sleep(random.uniform(0, 0.004))
            assert watcher.reader
            hit = strike(watcher, order_for_process(report, pid, None), persistent=persistent)
            outcomes[hit] += 1
            if hit:
                assert victim.dead.wait(10)
                killer = watcher.reader.connection.info.backend_pid
                taken, freed, began = row(janitor, WITNESS, killer)
                known_by = began if persistent else shown_by  # it may look again, and see it taken anew
                assert freed >= began or (freed < taken and freed <= known_by), (
                    shown_by,
                    taken,
                    freed,
                    began,
                )
                victim.dead.clear()
                victim.born_again.set()


def strike(watcher: Watcher, order: Order, *, persistent: bool) -> bool:
    """Kill, and return whether somebody was hit."""
    try:
        act_on(watcher, order, persistent=persistent)
    except Refused:
        return False
    return True


def shown(watcher: Watcher, victim: Victim) -> tuple[Report, int]:
    """A poll that shows who holds the lock."""
    while True:
        assert not victim.dead.is_set(), "hit, though it was said to be refused"
        report = watcher.poll()
        for lock in report.locks:
            if lock.key.objid == 42 and lock.granted and lock.pid:
                return report, lock.pid


def server_clock(janitor: Connection) -> int:
    return row(janitor, f"SELECT {NOW}")[0]


def row(connection: Connection, statement: str, *parameters: int) -> tuple[int, ...]:
    found = connection.execute(statement.encode(), parameters).fetchone()
    assert found
    return found

"""A server that has no room left: for locks, for connections."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from itertools import count
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import errors

from pglock_inspect.errors import ServerFailure
from pglock_inspect.postgres import Reader
from tests.support.snapshots import keys_of
from tests.support.waiting import wait_until
from tests.support.watching import begin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.demo.server import TemporaryServer
    from tests.support.servers import Connection, StartServer


@pytest.fixture
def small_server(start_server: StartServer) -> TemporaryServer:
    return start_server(
        {"max_locks_per_transaction": 10, "max_connections": 8, "superuser_reserved_connections": 1}
    )


@pytest.fixture
def hoarder(small_server: TemporaryServer) -> Iterator[Connection]:
    with psycopg.connect(small_server.dsn(application_name="hoarder"), autocommit=True) as connection:
        yield connection


def fill(connection: Connection) -> int:
    """Take locks until there is no room for one more; returns how many."""
    for number in count():
        try:
            connection.execute("SELECT pg_advisory_lock(%s)", [number])
        except errors.OutOfMemory:
            return number
    raise AssertionError


def test_a_warm_reader_reads_a_full_lock_table_and_a_new_one_says_why_it_cannot(
    small_server: TemporaryServer, hoarder: Connection
) -> None:
    seconds = 0.0
    with Reader(small_server.dsn(), clock=lambda: seconds) as reader:
        first = reader.read()
        assert first.server.lock_slots_guaranteed == 10 * (8 + 20)
        taken = fill(hoarder)
        assert taken > first.server.lock_slots_guaranteed / 2
        with pytest.raises(ServerFailure, match="out of shared memory") as failure:
            Reader(small_server.dsn())
        assert failure.value.reason == "lock_table_full"
        assert "max_locks_per_transaction" in str(failure.value)

        for _ in range(3):
            seconds += 100  # names are due to be read again, which takes locks
            snapshot = reader.read()
            assert len(keys_of(snapshot, hoarder)) == taken
            assert snapshot.lock_table_rows >= taken
            session = snapshot.sessions[hoarder.info.backend_pid]
            assert (session.database, session.user) == ("postgres", "postgres")
            assert session.application_name == "hoarder"

        hoarder.execute("SELECT pg_advisory_unlock_all()")
        assert keys_of(reader.read(), hoarder) == set()
    with Reader(small_server.dsn()) as reader:
        assert reader.read().locks == ()


def test_a_reader_asks_who_blocks_whom_while_the_table_is_full(
    small_server: TemporaryServer, hoarder: Connection
) -> None:
    with Reader(small_server.dsn()) as reader, ExitStack() as opened:
        reader.read()
        hoarder.execute("SELECT pg_advisory_lock(-1)")
        waiters = [psycopg.connect(small_server.dsn(), autocommit=True) for _ in range(2)]
        for waiter in waiters:
            opened.callback(waiter.close)
            begin(waiter, "SELECT pg_advisory_lock(-1)")
        wait_until(lambda: len(reader.read().blocking) == 2, "both wait")
        fill(hoarder)
        blocking = reader.read().blocking
        assert blocking.keys() == {waiter.info.backend_pid for waiter in waiters}
        assert all(hoarder.info.backend_pid in blockers for blockers in blocking.values())


def test_no_connection_is_left(small_server: TemporaryServer, hoarder: Connection) -> None:
    hoarder.execute("CREATE ROLE app LOGIN")
    with Reader(small_server.dsn()) as reader, ExitStack() as opened:
        with suppress(psycopg.OperationalError):
            while True:
                opened.enter_context(psycopg.connect(small_server.dsn(user="app")))
        with pytest.raises(ServerFailure) as failure:
            Reader(small_server.dsn(user="app"))
        assert failure.value.reason == "too_many_connections"
        assert "close connections" in str(failure.value)
        applications = [session.user for session in reader.read().sessions.values()]
        assert applications.count("app") >= 4


def test_no_connection_is_left_for_a_role_or_a_database(
    small_server: TemporaryServer, hoarder: Connection
) -> None:
    hoarder.execute("CREATE ROLE app LOGIN CONNECTION LIMIT 0")
    hoarder.execute("CREATE DATABASE closed CONNECTION LIMIT 0")
    hoarder.execute("CREATE ROLE other LOGIN")
    for parameters in ({"user": "app"}, {"user": "other", "dbname": "closed"}):
        with pytest.raises(ServerFailure, match="too many connections for") as failure:
            Reader(small_server.dsn(**parameters))
        assert failure.value.reason == "too_many_connections"


def test_a_server_that_shuts_down(small_server: TemporaryServer, hoarder: Connection) -> None:
    with Reader(small_server.dsn()) as reader:
        reader.read()
        hoarder.close()
        small_server.stop()
        with pytest.raises(ServerFailure) as failure:
            reader.read()
        assert failure.value.reason == "connect"
    with pytest.raises(ServerFailure) as failure:
        Reader(small_server.dsn())
    assert failure.value.reason == "connect"
    small_server.start()
    with Reader(small_server.dsn()) as reader:
        assert reader.read().locks == ()

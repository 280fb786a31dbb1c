"""A real PgBouncer: the trap that session-level locks fall into, and the helper, which does not."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from pglock_inspect import LockLost, PoolerDetected, run_with_xact_lock
from tests.postgres.lock.conftest import advisory_locks, compete, locked_by_hand
from tests.support.pooler import pgbouncer
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect, Connection
    from tests.support.sides import Side

JOB = "send_daily_digest"
KEY = f"hashtext('{JOB}')"

pytestmark = pytest.mark.requires("pgbouncer")
waits = pytest.mark.parametrize("wait", [timedelta(), timedelta(seconds=5)], ids=["at once", "wait"])


@pytest.fixture
def transactions(dsn: str) -> Iterator[str]:
    with pgbouncer(dsn, "transaction", pool_size=1) as through:
        yield through


@pytest.fixture
def sessions(dsn: str) -> Iterator[str]:
    with pgbouncer(dsn, "session", pool_size=5) as through:
        yield through


def test_the_trap(transactions: str, janitor: Connection) -> None:
    """Naive code: two replicas both get the lock, and one row shows."""
    take = f"SELECT pg_try_advisory_lock({KEY})".encode()
    with (
        psycopg.connect(transactions, autocommit=True) as one,
        psycopg.connect(transactions, autocommit=True) as two,
    ):
        assert one.execute(take).fetchone() == (True,)
        assert two.execute(take).fetchone() == (True,)
        assert len(advisory_locks(janitor)) == 1
        two.execute("SELECT pg_advisory_unlock_all()")


def test_the_other_half_of_the_trap(dsn: str, janitor: Connection) -> None:
    """Naive code: the unlock runs in another session, and the lock stays."""
    with pgbouncer(dsn, "transaction", pool_size=2) as through, ExitStack() as connections:
        one, two = (connections.enter_context(psycopg.connect(through, autocommit=True)) for _ in range(2))
        one.execute(f"SELECT pg_advisory_lock({KEY})".encode())
        two.execute("BEGIN")  # takes the one server connection
        assert one.execute(f"SELECT pg_advisory_unlock({KEY})".encode()).fetchone() == (False,)
        assert len(advisory_locks(janitor)) == 1
        two.execute("SELECT pg_advisory_unlock_all()")


def test_whole_sessions_are_no_trap(sessions: str, janitor: Connection) -> None:
    """Naive code: one replica gets the lock, and the pooler releases what is left locked."""
    take = f"SELECT pg_try_advisory_lock({KEY})".encode()
    with psycopg.connect(sessions, autocommit=True) as two:
        with psycopg.connect(sessions, autocommit=True) as one:
            assert one.execute(take).fetchone() == (True,)
            assert two.execute(take).fetchone() == (False,)
        wait_until(lambda: not advisory_locks(janitor), "the session of the first is cleaned")
        assert two.execute(take).fetchone() == (True,)


@waits
@pytest.mark.parametrize("own", [False, True], ids=["a connection", "its own"])
def test_a_session_level_lock_is_refused_and_never_taken(
    side: Side, transactions: str, sessions: str, janitor: Connection, *, wait: timedelta, own: bool
) -> None:
    for through in (transactions, sessions):
        ran: list[object] = []
        conn = through if own else side.connect(through)
        for _ in range(3):
            with pytest.raises(PoolerDetected, match=r"PgBouncer .* use run_with_xact_lock\(\)"):
                side.run(conn, JOB, ran.append, wait=wait)
            with pytest.raises(PoolerDetected):
                side.hold(conn, JOB, ran.append, wait=wait)
            assert advisory_locks(janitor) == []
        assert ran == []


def test_a_refused_attempt_leaves_no_settings_behind(side: Side, transactions: str) -> None:
    with pytest.raises(PoolerDetected):
        side.run(transactions, JOB)
    with psycopg.connect(transactions, autocommit=True) as next_client:
        assert next_client.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)


@waits
def test_an_xact_lock_excludes_through_transaction_pooling(
    side: Side, dsn: str, janitor: Connection, *, wait: timedelta
) -> None:
    with pgbouncer(dsn, "transaction", pool_size=3) as through:
        conn, other = side.connect(through), psycopg.connect(through)
        seen: list[object] = []

        def try_too(_: object) -> None:
            seen.append(run_with_xact_lock(other, JOB, int))
            seen.append(len(advisory_locks(janitor)))

        for _ in range(20):
            assert side.run(conn, JOB, try_too, xact=True, wait=wait)
        other.close()
        assert seen == [False, 2] * 20


def test_an_xact_lock_with_its_own_connection_leaves_no_settings_behind(
    side: Side, transactions: str
) -> None:
    assert side.run(transactions, JOB, xact=True)
    with psycopg.connect(transactions, autocommit=True) as next_client:
        assert next_client.execute("SHOW idle_in_transaction_session_timeout").fetchone() == ("0",)
        assert next_client.execute("SHOW tcp_keepalives_count").fetchone() != ("3",)


def test_five_replicas_through_transaction_pooling(dsn: str) -> None:
    with pgbouncer(dsn, "transaction", pool_size=3) as through, ExitStack() as connections:
        replicas = [connections.enter_context(psycopg.connect(through)) for _ in range(5)]
        for _ in range(50):
            assert sorted(compete(replicas, run_with_xact_lock)) == [False] * 4 + [True]


@waits
def test_session_pooling_may_be_allowed(
    side: Side, sessions: str, connect: Connect, *, wait: timedelta
) -> None:
    conn = side.connect(sessions)
    with pytest.raises(PoolerDetected):
        side.run(conn, JOB, wait=wait)
    for _ in range(3):
        assert side.run(conn, JOB, wait=wait, pooler="allow")
        assert side.hold(conn, JOB, lambda lock: lock.check(), wait=wait, pooler="allow")
        assert side.run(sessions, JOB, wait=wait, pooler="allow")
    with locked_by_hand(connect(), KEY):
        assert side.run(conn, JOB, pooler="allow") is False


def test_transaction_pooling_that_is_allowed_is_found_out(side: Side, dsn: str) -> None:
    for block in ([], [lambda lock: lock.check()]):
        with pgbouncer(dsn, "transaction", pool_size=2) as through:
            conn = side.connect(through, autocommit=True)
            with psycopg.connect(through) as other:  # takes the one server connection, with the lock
                with pytest.raises(LockLost, match=r"a transaction pooler .* \(see run_with_xact_lock\)"):
                    side.hold(conn, JOB, lambda _: other.execute("SELECT 1"), *block, pooler="allow")
                other.execute("SELECT pg_advisory_unlock_all()")

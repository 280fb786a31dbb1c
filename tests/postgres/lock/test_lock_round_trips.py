"""One round trip to take a lock, and one to release it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from pglock_inspect import UncommittedWork, try_lock
from tests.support.proxy import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect
    from tests.support.sides import Side

JOB = "send_daily_digest"

both_kinds = pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])
both_modes = pytest.mark.parametrize("autocommit", [True, False], ids=["autocommit", "transactions"])
waits = pytest.mark.parametrize("wait", [timedelta(), timedelta(seconds=5)], ids=["at once", "wait"])


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    with Proxy(dsn) as proxy:
        yield proxy


def test_the_proxy_counts_right(proxy: Proxy) -> None:
    with psycopg.connect(proxy.dsn) as conn:
        with proxy.counting(3):  # BEGIN, SELECT, COMMIT
            conn.execute("SELECT 1")
            conn.commit()
        with proxy.counting(1):
            conn.rollback()
            conn.pgconn.exec_(b"BEGIN; SELECT 1; COMMIT")


@both_kinds
@both_modes
@waits
@pytest.mark.parametrize("stamp", [True, False], ids=["stamp", "no stamp"])
def test_two_round_trips_in_all(
    proxy: Proxy, side: Side, *, autocommit: bool, xact: bool, wait: timedelta, stamp: bool
) -> None:
    conn = side.connect(proxy.dsn, autocommit=autocommit)
    for _ in range(3):
        with proxy.counting(2):
            assert side.run(conn, JOB, xact=xact, wait=wait, stamp=stamp)


@both_modes
def test_one_to_find_it_taken(proxy: Proxy, side: Side, connect: Connect, *, autocommit: bool) -> None:
    conn = side.connect(proxy.dsn, autocommit=autocommit)
    with try_lock(connect(), JOB), proxy.counting(1):
        assert side.run(conn, JOB) is False


@both_modes
def test_one_to_check(proxy: Proxy, side: Side, *, autocommit: bool) -> None:
    conn = side.connect(proxy.dsn, autocommit=autocommit)
    with proxy.counting(4):
        side.hold(conn, JOB, lambda lock: lock.check(), lambda lock: lock.check())


@both_kinds
def test_two_when_the_job_fails(proxy: Proxy, side: Side, *, xact: bool) -> None:
    conn = side.connect(proxy.dsn, autocommit=True)

    def fail(_: object) -> None:
        raise ZeroDivisionError

    with proxy.counting(2), pytest.raises(ZeroDivisionError):
        side.run(conn, JOB, fail, xact=xact)


def test_one_more_to_roll_back_what_a_job_left(proxy: Proxy, side: Side) -> None:
    conn = side.connect(proxy.dsn)
    with proxy.counting(2 + 2 + 1), pytest.raises(UncommittedWork):
        side.run(conn, JOB, lambda c: c.execute("SELECT 1"))


def test_one_more_for_a_snapshot_as_new_as_the_lock(proxy: Proxy, side: Side) -> None:
    conn = side.connect(proxy.dsn)
    side.do(conn, lambda c: c.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE))
    with proxy.counting(3):
        side.run(conn, JOB, xact=True)

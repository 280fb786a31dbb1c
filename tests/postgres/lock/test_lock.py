"""What the lock helper does when all goes well."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg
import pytest
from psycopg import rows, sql

from pglock_inspect import LockLost, LockTimeout, UnhashableName, UnknownScheme, try_lock
from pglock_inspect.keys import signed
from pglock_inspect.schemes import key_of
from tests.postgres.lock.conftest import advisory_locks, locked_by_hand
from tests.support.sides import query

if TYPE_CHECKING:
    from tests.support.servers import Connect, Connection, StartServer
    from tests.support.sides import Conn, Given, Side, Step

JOB = "send_daily_digest"


@pytest.fixture(params=[True, False], ids=["autocommit", "transactions"])
def conn(request: pytest.FixtureRequest, side: Side, dsn: str) -> Conn:
    return side.connect(dsn, autocommit=request.param)


@pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])
@pytest.mark.parametrize("wait", [timedelta(), timedelta(seconds=5)], ids=["at once", "wait"])
def test_the_job_runs_under_a_lock_that_tells_when_it_was_taken(
    side: Side, conn: Conn, janitor: Connection, *, xact: bool, wait: timedelta
) -> None:
    seen: list[tuple[int, int, int, str]] = []
    for _ in range(3):  # the second time, it is prepared
        now = time.time()
        ran = side.run(conn, JOB, lambda _: seen.extend(advisory_locks(janitor)), xact=xact, wait=wait)
        assert ran
        key = key_of(JOB)
        lock, stamp = seen
        assert lock == (*key, "ExclusiveLock")
        assert stamp == (key.objid, stamp[1], 2, "ShareLock")
        assert int(now) <= stamp[1] <= time.time()
        assert advisory_locks(janitor) == []
        seen.clear()


@pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])
def test_without_a_stamp_there_is_one_lock(
    side: Side, conn: Conn, janitor: Connection, *, xact: bool
) -> None:
    seen: list[Any] = []
    side.run(conn, JOB, lambda _: seen.extend(advisory_locks(janitor)), xact=xact, stamp=False)
    assert seen == [(*key_of(JOB), "ExclusiveLock")]


def test_a_stamp_of_this_century_fits_a_signed_int4(connect: Connect) -> None:
    """The second modulo 2^32 as int4: from 2038 on it is negative, from 2106 on it begins anew."""
    session = connect()
    for second in (1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 5):
        (stamp,) = session.execute(f"SELECT {second}::bigint::bit(32)::int".encode()).fetchone() or ()
        assert stamp == signed(second & 0xFFFFFFFF, 32)


def test_a_session_level_job_runs_outside_a_transaction(side: Side, conn: Conn) -> None:
    status: list[Any] = []
    side.run(conn, JOB, lambda c: status.append(c.info.transaction_status))
    assert status == [psycopg.pq.TransactionStatus.IDLE]


def test_where_another_session_holds_it_the_job_does_not_run(
    side: Side, conn: Conn, connect: Connect
) -> None:
    ran: list[Any] = []
    with try_lock(connect(), JOB) as other:
        assert other
        for xact in (False, True):
            assert side.run(conn, JOB, ran.append, xact=xact) is False
            assert side.run(conn, JOB, ran.append, xact=xact, wait=timedelta(milliseconds=50)) is False
            assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert side.hold(conn, JOB, lambda lock: ran.append(lock) if lock else None) is False
    assert ran == []
    assert side.run(conn, JOB, ran.append)


@pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])
def test_a_wait_ends_when_the_lock_is_free(side: Side, conn: Conn, connect: Connect, *, xact: bool) -> None:
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(hashtext(%s))", [JOB])
    release = threading.Timer(0.3, holder.execute, ["SELECT pg_advisory_unlock_all()"])
    release.start()
    started = time.monotonic()
    assert side.run(conn, JOB, xact=xact, wait=timedelta(seconds=20))
    assert 0.2 < time.monotonic() - started < 5
    release.join()


@pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])
def test_the_stamp_of_a_lock_that_was_waited_for_is_that_of_the_grant(
    side: Side, conn: Conn, connect: Connect, janitor: Connection, *, xact: bool
) -> None:
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(hashtext(%s))", [JOB])
    release = threading.Timer(1.2, holder.execute, ["SELECT pg_advisory_unlock_all()"])
    release.start()
    begun, seen = int(time.time()), []
    side.run(conn, JOB, lambda _: seen.extend(advisory_locks(janitor)), xact=xact, wait=timedelta(seconds=20))
    release.join()
    assert seen[1][1] > begun


@pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])
@pytest.mark.parametrize("wait", [timedelta(), timedelta(hours=7)], ids=["at once", "wait"])
def test_the_job_finds_its_settings_as_they_were(
    side: Side, conn: Conn, *, xact: bool, wait: timedelta
) -> None:
    side.do(conn, lambda c: c.execute("SET lock_timeout = '7s'"), lambda c: c.commit())

    found: list[Any] = []
    show = query("SHOW lock_timeout", into=found)
    side.run(conn, JOB, show, lambda c: None if xact else c.commit(), xact=xact, wait=wait)
    side.do(conn, show)
    assert found == [("7s",), ("7s",)]


@pytest.mark.parametrize("row_factory", [rows.dict_row, rows.namedtuple_row, rows.scalar_row, None])
@pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])
def test_any_row_factory_and_loader_works(side: Side, dsn: str, row_factory: Given, *, xact: bool) -> None:
    def unusable(_cursor: Step) -> NoReturn:
        raise AssertionError("the helper does not use it")

    conn = side.connect(dsn, row_factory=row_factory or unusable)
    for kind in ("int4", "int8", "bool", "text"):
        conn.adapters.register_loader(kind, psycopg.types.string.TextBinaryLoader)
    assert side.run(conn, JOB, xact=xact)
    assert side.run(conn, JOB, xact=xact, wait=timedelta(seconds=1))
    assert side.hold(conn, JOB, lambda lock: lock.check())


NAMES = [
    "",
    " ",
    "größe",
    "日報",
    "😀",
    "it's \"quoted\" \\ and \\'",
    "a\nb\tc\x01",
    "%s %% {}",
    "x" * 100_000,
]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_every_name_has_the_key_that_the_server_gives_it(
    side: Side, conn: Conn, connect: Connect, name: str
) -> None:
    session = connect()
    with locked_by_hand(session, f"hashtext({sql.quote(name)})"):
        assert side.run(conn, name) is False
        assert side.run(conn, name, xact=True) is False
    assert side.run(conn, name)
    assert side.run(conn, name, wait=timedelta(seconds=1))
    assert side.run(conn, name, xact=True)


def test_a_name_that_no_text_of_the_server_can_hold(side: Side, conn: Conn) -> None:
    with pytest.raises(UnhashableName, match="holds no NUL character"):
        side.run(conn, "a\0b")
    for wait in (timedelta(), timedelta(seconds=1)):
        assert side.run(conn, "a\0b", scheme="sha256-64-be", wait=wait)
    assert side.run(conn, "a\0b", scheme="sha256-64-be", xact=True)


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "EUC_JP", "SQL_ASCII"])
def test_the_key_is_that_of_the_database_s_encoding(
    side: Side, start_server: StartServer, encoding: str
) -> None:
    server = start_server(encoding=encoding)
    name = "日報" if encoding == "EUC_JP" else "größe"
    for client_encoding in ("UTF8", encoding):
        conn = side.connect(server.dsn(client_encoding=client_encoding))
        with (
            psycopg.connect(server.dsn(client_encoding="UTF8"), autocommit=True) as other,
            locked_by_hand(other, f"hashtext('{name}')"),
        ):
            assert side.run(conn, name) is False
        assert side.run(conn, name, scheme="sha256-64-be", wait=timedelta(seconds=1))
        if encoding != "SQL_ASCII":
            with pytest.raises(UnhashableName):
                side.run(conn, "😀")
            assert side.run(conn, "😀", scheme="sha256-64-be")  # which the server need not know


@pytest.mark.parametrize(
    ("scheme", "name", "arguments"),
    [
        ("hashtextextended", JOB, f"hashtextextended('{JOB}', 0)"),
        ("int", "-42", "-42"),
        ("hashtext-pair", "a,b", "hashtext('a'), hashtext('b')"),
        ("with_advisory_lock", "a", "1756872259, 0"),
    ],
)
def test_a_scheme_makes_the_key(
    side: Side, conn: Conn, connect: Connect, *, scheme: str, name: str, arguments: str
) -> None:
    other = connect()
    with locked_by_hand(other, arguments):
        assert advisory_locks(other)[0][:3] == key_of(name, scheme)
        assert side.run(conn, name, scheme=scheme) is False
    assert side.run(conn, name, scheme=scheme)
    assert side.hold(conn, name, lambda lock: lock.check(), scheme=scheme)
    assert side.run(conn, name, scheme=scheme, xact=True)


def test_an_unknown_scheme_is_named(side: Side, conn: Conn) -> None:
    with pytest.raises(UnknownScheme, match="hashtext"):
        side.run(conn, JOB, scheme="hashtxt")


def test_the_name_can_be_seen_while_the_job_runs(side: Side, conn: Conn, janitor: Connection) -> None:
    """Whoever finds the session, idle, reads the job's name in its last statement."""
    seen: list[Any] = []

    def look(_: Conn) -> None:
        seen.extend(
            janitor.execute(
                """SELECT query FROM pg_stat_activity JOIN pg_locks USING (pid)
                   WHERE locktype = 'advisory' AND objsubid = 1"""
            ).fetchone()
            or ()
        )

    for _ in range(3):
        side.run(conn, JOB, look)
        side.run(conn, "größe 😀", look)
    assert len(seen) == 6
    assert all(f"'{JOB}'" in query for query in seen[::2])
    assert all("'größe 😀'" in query for query in seen[1::2])


class TestCheck:
    def test_a_lock_that_is_held(self, side: Side, conn: Conn) -> None:
        assert side.hold(conn, JOB, lambda lock: lock.check(), lambda lock: lock.check())

    def test_a_lock_that_was_not_granted(self, side: Side, conn: Conn, connect: Connect) -> None:
        with (
            try_lock(connect(), JOB),
            pytest.raises(LockTimeout, match=r"'send_daily_digest'.* another session"),
        ):
            side.hold(conn, JOB, lambda lock: lock.check())

    def test_a_lock_that_was_unlocked(self, side: Side, conn: Conn) -> None:
        def steal(_: Step) -> Step:
            return conn.execute("SELECT pg_advisory_unlock(hashtext(%s))", [JOB])

        with pytest.raises(LockLost) as lost:
            side.hold(conn, JOB, steal, lambda _: conn.rollback(), lambda lock: lock.check())
        assert "released" in str(lost.value)

    def test_a_lock_after_its_block(self, side: Side, conn: Conn) -> None:
        locks: list[Any] = []
        side.hold(conn, JOB, locks.append)
        with pytest.raises(LockLost, match="end of its with block"):
            side.do(locks[0], lambda lock: lock.check())


def test_a_lock_may_be_used_again(side: Side, conn: Conn, connect: Connect) -> None:
    lock = try_lock(connect(), JOB)
    for _ in range(3):
        with lock:
            assert lock
            assert side.run(conn, JOB) is False
        assert side.run(conn, JOB)


@pytest.mark.parametrize("forget", ["DEALLOCATE ALL", "DISCARD ALL"])
def test_what_was_prepared_may_be_gone(side: Side, dsn: str, forget: str) -> None:
    conn = side.connect(dsn, autocommit=True)
    for _ in range(3):
        assert side.run(conn, JOB)
        assert side.run(conn, JOB, lambda c: c.execute("DEALLOCATE ALL"))
        side.do(conn, lambda c: c.execute(forget))


def test_a_connection_that_prepares_nothing_keeps_to_that(side: Side, dsn: str) -> None:
    conn = side.connect(dsn, autocommit=True, prepare_threshold=None)
    assert side.run(conn, JOB)
    found: list[Any] = []
    side.do(conn, query("SELECT count(*) FROM pg_prepared_statements", into=found))
    assert found == [(0,)]


@pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])
def test_a_thousand_names_on_one_connection(side: Side, dsn: str, *, xact: bool) -> None:
    conn = side.connect(dsn, autocommit=True)
    for number in range(300):
        assert side.run(conn, f"job {number}", xact=xact)
        assert side.run(conn, f"job {number % 120}", xact=xact)
    found: list[Any] = []
    side.do(conn, query("SELECT count(*) FROM pg_prepared_statements", into=found))
    assert found[0][0] <= 101


def test_a_standby_has_locks_of_its_own(side: Side, start_server: StartServer) -> None:
    with start_server().standby() as standby:
        conn = side.connect(standby.dsn())
        assert side.run(conn, JOB)
        assert side.run(conn, JOB, xact=True, wait=timedelta(seconds=1))
        assert side.run(standby.dsn(), JOB)
        with (
            psycopg.connect(standby.dsn(), autocommit=True) as other,
            locked_by_hand(other, f"hashtext('{JOB}')"),
        ):
            assert side.run(conn, JOB) is False


@pytest.mark.parametrize("own", [False, True], ids=["a connection", "its own"])
def test_a_lock_is_true_while_it_is_held(connect: Connect, dsn: str, *, own: bool) -> None:
    lock = try_lock(dsn if own else connect(), JOB)
    assert not lock
    with lock:
        assert lock
    assert lock.granted
    assert not lock

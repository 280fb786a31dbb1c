"""Every way in which locks leak, or lie, in helpers that were seen: each goes right here."""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg
import pytest
from psycopg import errors
from psycopg.pq import TransactionStatus

from pglock_inspect import (
    AlreadyHeld,
    InTransaction,
    LockLost,
    LockTimeout,
    NotAPsycopgConnection,
    UncommittedWork,
    arun_with_lock,
    arun_with_xact_lock,
    run_with_lock,
    run_with_xact_lock,
    try_lock,
)
from tests.postgres.lock.conftest import advisory_locks, held_by, locked_by_hand
from tests.support.sides import query
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect, Connection, StartServer
    from tests.support.sides import Conn, Side, Step

JOB = "send_daily_digest"
KEY = f"hashtext('{JOB}')"
SECOND = timedelta(seconds=1)

both_kinds = pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])


class JobFailed(Exception):
    """What a job raises."""


def fail(_: Step) -> NoReturn:
    raise JobFailed("no mail today")


@pytest.fixture(params=[True, False], ids=["autocommit", "transactions"])
def conn(request: pytest.FixtureRequest, side: Side, dsn: str) -> Conn:
    return side.connect(dsn, autocommit=request.param)


async def noop() -> None: ...


def sql(statement: str) -> Step:
    return lambda conn: conn.execute(statement)


def swallow(statement: str) -> Step:
    """Return a step that goes on after an SQL error."""

    def step(conn: Conn) -> object:
        if isinstance(conn, psycopg.Connection):
            with pytest.raises(psycopg.Error):
                conn.execute(statement.encode())
            return None

        async def execute() -> None:
            with pytest.raises(psycopg.Error):
                await conn.execute(statement.encode())

        return execute()

    return step


def status(conn: Conn) -> TransactionStatus:
    return TransactionStatus(conn.info.transaction_status)


@pytest.fixture
def table(janitor: Connection) -> Iterator[None]:
    janitor.execute("CREATE TABLE work (id int PRIMARY KEY, parent int REFERENCES work INITIALLY DEFERRED)")
    yield
    janitor.execute("DROP TABLE work")


def rows(session: Connection) -> list[int]:
    return [row[0] for row in session.execute("SELECT id FROM work ORDER BY id")]


class TestTheJobRaises:
    @both_kinds
    def test_its_own_exception_comes_out(self, side: Side, conn: Conn, *, xact: bool) -> None:
        with pytest.raises(JobFailed, match="no mail today") as failed:
            side.run(conn, JOB, fail, xact=xact)
        assert failed.value.__cause__ is failed.value.__context__ is None
        assert not hasattr(failed.value, "__notes__")
        assert status(conn) == TransactionStatus.IDLE

    @both_kinds
    @pytest.mark.usefixtures("table")
    def test_inside_an_aborted_transaction(
        self, side: Side, conn: Conn, janitor: Connection, *, xact: bool
    ) -> None:
        work = [sql("BEGIN")] if conn.autocommit and not xact else []
        with pytest.raises(errors.DivisionByZero) as failed:
            side.run(conn, JOB, *work, sql("INSERT INTO work VALUES (1)"), sql("SELECT 1/0"), xact=xact)
        assert not hasattr(failed.value, "__notes__")
        assert status(conn) == TransactionStatus.IDLE
        assert rows(janitor) == []
        assert side.run(conn, JOB, xact=xact)

    @both_kinds
    @pytest.mark.usefixtures("table")
    def test_with_a_transaction_open(
        self, side: Side, conn: Conn, janitor: Connection, *, xact: bool
    ) -> None:
        work = [sql("BEGIN")] if conn.autocommit and not xact else []
        with pytest.raises(JobFailed) as failed:
            side.run(conn, JOB, *work, sql("INSERT INTO work VALUES (1)"), fail, xact=xact)
        assert not hasattr(failed.value, "__notes__")
        assert rows(janitor) == []
        assert status(conn) == TransactionStatus.IDLE

    @both_kinds
    def test_and_the_lock_was_lost_too(
        self, side: Side, conn: Conn, janitor: Connection, *, xact: bool
    ) -> None:
        pid = conn.info.backend_pid
        kill = lambda _: janitor.execute("SELECT pg_terminate_backend(%s)", [pid])  # noqa: E731
        with pytest.raises(JobFailed) as failed:
            side.run(conn, JOB, kill, swallow("SELECT 1"), fail, xact=xact)
        if not xact:  # what was rolled back needed no lock
            assert "was lost" in failed.value.__notes__[0]


class TestTheJobLeavesATransaction:
    @pytest.mark.usefixtures("table")
    def test_open(self, side: Side, conn: Conn, janitor: Connection) -> None:
        work = [sql("BEGIN")] if conn.autocommit else []
        with pytest.raises(UncommittedWork, match=r"'send_daily_digest'.*rolled back: commit in the job"):
            side.run(conn, JOB, *work, sql("INSERT INTO work VALUES (1)"))
        assert rows(janitor) == []
        assert status(conn) == TransactionStatus.IDLE
        assert advisory_locks(janitor) == []

    @pytest.mark.usefixtures("table")
    def test_aborted(self, side: Side, conn: Conn, janitor: Connection) -> None:
        work = [sql("BEGIN")] if conn.autocommit else []
        assert side.run(conn, JOB, *work, sql("INSERT INTO work VALUES (1)"), swallow("SELECT 1/0"))
        assert rows(janitor) == []
        assert status(conn) == TransactionStatus.IDLE
        assert advisory_locks(janitor) == []

    @pytest.mark.usefixtures("table")
    def test_committed(self, side: Side, conn: Conn, janitor: Connection) -> None:
        assert side.run(conn, JOB, sql("INSERT INTO work VALUES (1)"), lambda c: c.commit())
        assert rows(janitor) == [1]

    @pytest.mark.usefixtures("table")
    def test_and_psycopg_s_prepared_statements_go_with_it(self, side: Side, conn: Conn) -> None:
        """Else the next run would meet a plan for a table that is gone."""
        create = "CREATE TEMPORARY TABLE scratch AS SELECT 1 AS a"
        for columns in ("a", "a, 2 AS b"):
            steps = [sql("BEGIN")] if conn.autocommit else []
            steps += [sql(create.replace("1 AS a", columns.replace("a", "1 AS a", 1)))]
            steps += [sql("SELECT * FROM scratch")] * 7
            with pytest.raises(UncommittedWork):
                side.run(conn, JOB, *steps)


class TestTheJobEndsTheTransactionOfAnXactLock:
    @pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "COMMIT; BEGIN; SELECT 1"])
    @pytest.mark.usefixtures("table")
    def test_by_sql(self, side: Side, conn: Conn, janitor: Connection, end: str) -> None:
        work = [sql("INSERT INTO work VALUES (1)"), sql(end)]
        if conn.autocommit is False:
            work.append(sql("INSERT INTO work VALUES (2)"))  # which psycopg begins a transaction for
        with pytest.raises(LockLost, match="leave that to run_with_xact_lock"):
            side.run(conn, JOB, *work, xact=True)
        assert status(conn) == TransactionStatus.IDLE
        assert rows(janitor) == ([] if end == "ROLLBACK" else [1])  # unguarded work is not committed

    @pytest.mark.parametrize("end", ["commit", "rollback"])
    def test_by_psycopg(self, side: Side, conn: Conn, end: str) -> None:
        with pytest.raises(LockLost):
            side.run(conn, JOB, lambda c: getattr(c, end)(), xact=True)

    @pytest.mark.usefixtures("table")
    def test_by_an_error_that_it_swallows(self, side: Side, conn: Conn, janitor: Connection) -> None:
        with pytest.raises(LockLost):
            side.run(conn, JOB, sql("INSERT INTO work VALUES (1)"), swallow("SELECT 1/0"), xact=True)
        assert rows(janitor) == []
        assert status(conn) == TransactionStatus.IDLE

    @pytest.mark.usefixtures("table")
    def test_but_not_by_an_error_in_a_savepoint(self, side: Side, conn: Conn, janitor: Connection) -> None:
        assert side.run(
            conn,
            JOB,
            sql("INSERT INTO work VALUES (1)"),
            sql("SAVEPOINT a"),
            swallow("SELECT 1/0"),
            sql("ROLLBACK TO a"),
            xact=True,
        )
        assert rows(janitor) == [1]

    @pytest.mark.usefixtures("table")
    def test_a_commit_that_fails_says_why(self, side: Side, conn: Conn, janitor: Connection) -> None:
        with pytest.raises(errors.ForeignKeyViolation):
            side.run(conn, JOB, sql("INSERT INTO work VALUES (1, 99)"), xact=True)
        assert rows(janitor) == []
        assert status(conn) == TransactionStatus.IDLE
        assert advisory_locks(janitor) == []


def test_an_xact_lock_holds_in_autocommit(side: Side, conn: Conn, connect: Connect) -> None:
    other, got = connect(), []
    side.run(conn, JOB, sql("SELECT 1"), lambda _: got.append(run_with_lock(other, JOB, int)), xact=True)
    assert got == [False]


@pytest.mark.parametrize("isolation", list(psycopg.IsolationLevel))
@pytest.mark.parametrize("server_s", [False, True], ids=["the connection's", "the server's"])
@pytest.mark.usefixtures("table")
def test_the_job_sees_what_the_last_run_committed(
    side: Side, dsn: str, connect: Connect, *, isolation: psycopg.IsolationLevel, server_s: bool
) -> None:
    """A snapshot from before the lock would hide it."""
    level = isolation.name.replace("_", " ").lower()
    conn = side.connect(dsn)
    if server_s:
        side.do(conn, sql(f"SET default_transaction_isolation = '{level}'"), lambda c: c.commit())
    else:
        side.do(conn, lambda c: c.set_isolation_level(isolation))
    last = connect(autocommit=False)

    def finish() -> None:
        last.execute("INSERT INTO work VALUES (1)")
        last.commit()

    last.execute(f"SELECT pg_advisory_xact_lock({KEY})".encode())
    finishing = threading.Timer(0.3, finish)
    finishing.start()
    found: list[Any] = []
    show, count = (
        query("SHOW transaction_isolation", into=found),
        query("SELECT count(*) FROM work", into=found),
    )
    assert side.run(conn, JOB, count, show, xact=True, wait=timedelta(seconds=20))
    finishing.join()
    assert found == [(1,), (level,)]


@pytest.mark.parametrize("read_only", [True, False])
def test_the_transaction_is_what_the_connection_says(side: Side, dsn: str, *, read_only: bool) -> None:
    conn = side.connect(dsn)
    found: list[tuple[str]] = []
    side.do(
        conn,
        lambda c: c.set_read_only(read_only),
        lambda c: c.set_deferrable(read_only),
        lambda c: c.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE),
    )
    settings = ("transaction_read_only", "transaction_deferrable", "transaction_isolation")
    side.run(conn, JOB, *(query(f"SHOW {setting}", into=found) for setting in settings), xact=True)
    on = "on" if read_only else "off"
    assert found == [(on,), (on,), ("serializable",)]


class TestTheLockIsLost:
    @both_kinds
    def test_the_job_closes_the_connection(self, side: Side, conn: Conn, *, xact: bool) -> None:
        with pytest.raises(LockLost, match="broke or was closed"):
            side.run(conn, JOB, lambda c: c.close(), xact=xact)

    @both_kinds
    def test_the_server_ends_the_session(
        self, side: Side, conn: Conn, janitor: Connection, *, xact: bool
    ) -> None:
        pid = conn.info.backend_pid
        kill = lambda _: janitor.execute("SELECT pg_terminate_backend(%s)", [pid])  # noqa: E731
        with pytest.raises(LockLost) as lost:
            side.run(conn, JOB, kill, swallow("SELECT pg_sleep(5)"), xact=xact)
        assert isinstance(lost.value.__cause__, psycopg.OperationalError)

    @pytest.mark.parametrize("how", [f"SELECT pg_advisory_unlock({KEY})", "SELECT pg_advisory_unlock_all()"])
    def test_the_job_unlocks(self, side: Side, conn: Conn, how: str) -> None:
        with pytest.raises(LockLost, match="something else released it"):
            side.run(conn, JOB, sql(how), lambda c: c.commit())

    def test_discard_all(self, side: Side, dsn: str) -> None:
        with pytest.raises(LockLost):
            side.run(side.connect(dsn, autocommit=True), JOB, sql("DISCARD ALL"))


def test_another_session_cannot_unlock(side: Side, conn: Conn, connect: Connect) -> None:
    other, answers = connect(), []

    def unlock(_: Step) -> None:
        answers.append(other.execute(f"SELECT pg_advisory_unlock({KEY})".encode()).fetchone())

    assert side.hold(conn, JOB, unlock, lambda lock: lock.check())
    assert answers == [(False,)]


class TestTheConnectionIsNotIdle:
    @both_kinds
    def test_in_a_transaction(self, side: Side, conn: Conn, *, xact: bool) -> None:
        side.do(conn, sql("BEGIN") if conn.autocommit else sql("SELECT 1"))
        with pytest.raises(InTransaction, match="commit or roll back before locking"):
            side.run(conn, JOB, xact=xact)
        assert status(conn) == TransactionStatus.INTRANS  # untouched
        side.do(conn, lambda c: c.rollback())
        assert side.run(conn, JOB, xact=xact)

    @both_kinds
    def test_in_an_aborted_transaction(self, side: Side, conn: Conn, *, xact: bool) -> None:
        side.do(conn, sql("BEGIN") if conn.autocommit else sql("SELECT 1"), swallow("SELECT 1/0"))
        with pytest.raises(InTransaction):
            side.run(conn, JOB, xact=xact)
        side.do(conn, lambda c: c.rollback())

    @both_kinds
    def test_in_pipeline_mode(self, dsn: str, *, xact: bool) -> None:
        run = run_with_xact_lock if xact else run_with_lock
        with psycopg.connect(dsn, autocommit=True) as conn:
            with conn.pipeline(), pytest.raises(InTransaction, match="pipeline"):
                run(conn, JOB, int)
            assert run(conn, JOB, int)

    def test_in_the_middle_of_a_query(self, dsn: str) -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.pgconn.send_query(b"SELECT 1")
            with pytest.raises(InTransaction, match="busy"):
                run_with_lock(conn, JOB, int)
            while conn.pgconn.get_result():
                pass
            assert run_with_lock(conn, JOB, int)

    @both_kinds
    def test_closed(self, side: Side, conn: Conn, *, xact: bool) -> None:
        side.do(conn, lambda c: c.close())
        with pytest.raises(psycopg.OperationalError):
            side.run(conn, JOB, xact=xact)


class TestTheSameSessionTwice:
    @pytest.mark.parametrize("inner", [False, True], ids=["session", "xact"])
    @both_kinds
    def test_nested(self, side: Side, conn: Conn, janitor: Connection, *, xact: bool, inner: bool) -> None:
        if isinstance(conn, psycopg.Connection):
            again: Step = lambda c: (run_with_xact_lock if inner else run_with_lock)(c, JOB, int)  # noqa: E731
        else:
            again = lambda c: (arun_with_xact_lock if inner else arun_with_lock)(c, JOB, noop)  # noqa: E731
        with pytest.raises(AlreadyHeld, match="its own connection"):
            side.run(conn, JOB, again, xact=xact)
        assert advisory_locks(janitor) == []

    def test_two_names_of_one_key(self, dsn: str) -> None:
        with psycopg.connect(dsn) as conn, try_lock(conn, "7", scheme="int") as lock:
            assert lock
            with pytest.raises(AlreadyHeld):
                run_with_lock(conn, "+7", int, scheme="int")

    def test_two_threads(self, dsn: str) -> None:
        started = threading.Barrier(8)
        outcomes: list[bool | None] = []
        with psycopg.connect(dsn, autocommit=True) as conn:

            def work() -> None:
                started.wait()
                try:
                    outcomes.append(run_with_lock(conn, JOB, lambda: conn.execute("SELECT pg_sleep(0.2)")))
                except AlreadyHeld:
                    outcomes.append(None)

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(outcomes, key=str) == [None] * 7 + [True]
            assert run_with_lock(conn, JOB, int)

    def test_another_key_is_another_matter(self, dsn: str, janitor: Connection) -> None:
        with psycopg.connect(dsn) as conn, try_lock(conn, "a") as a, try_lock(conn, "b") as b:
            assert a
            assert b
            with pytest.raises(InTransaction), conn.transaction():
                run_with_xact_lock(conn, "c", int)
            assert run_with_xact_lock(conn, "c", int)
            a.check()
            b.check()
        assert advisory_locks(janitor) == []

    def test_a_lock_inside_itself(self, dsn: str) -> None:
        with psycopg.connect(dsn) as conn, try_lock(conn, JOB) as lock:
            with pytest.raises(AlreadyHeld, match="make another one"), lock:
                pass
            lock.check()

    def test_a_failed_attempt_leaves_nothing_behind(self, dsn: str, connect: Connect) -> None:
        other = connect()
        with psycopg.connect(dsn) as conn:
            with locked_by_hand(other, KEY), try_lock(conn, JOB) as lock:
                assert not lock
                assert run_with_lock(conn, JOB, int) is False
            assert run_with_lock(conn, JOB, int)


class TestAWait:
    @both_kinds
    def test_cut_short_by_statement_timeout(
        self, side: Side, conn: Conn, connect: Connect, *, xact: bool
    ) -> None:
        side.do(conn, sql("SET statement_timeout = 100"), lambda c: c.commit())
        with locked_by_hand(connect(), KEY), pytest.raises(LockTimeout, match="statement_timeout") as cut:
            side.run(conn, JOB, xact=xact, wait=timedelta(seconds=20))
        assert isinstance(cut.value.__cause__, errors.QueryCanceled)
        assert side.run(conn, JOB, xact=xact)

    @both_kinds
    def test_cut_short_by_a_cancel_request(
        self, side: Side, conn: Conn, connect: Connect, *, xact: bool
    ) -> None:
        other, pid = connect(), conn.info.backend_pid
        request = "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE NOT granted AND pid = %s"

        def cancel() -> None:
            wait_until(lambda: other.execute(request, [pid]).fetchone(), "it waits")

        thread = threading.Thread(target=cancel)
        thread.start()
        with locked_by_hand(connect(), KEY), pytest.raises(LockTimeout, match="cancel"):
            side.run(conn, JOB, xact=xact, wait=timedelta(seconds=20))
        thread.join()
        assert side.run(conn, JOB, xact=xact)

    @both_kinds
    def test_that_deadlocks(
        self, side: Side, conn: Conn, connect: Connect, janitor: Connection, *, xact: bool
    ) -> None:
        """The victim's session-level locks survive the error: none of ours may."""
        other = connect()
        other.execute("SET deadlock_timeout = '1h'")
        side.do(conn, sql("SELECT pg_advisory_lock(1)"), lambda c: c.commit())
        with locked_by_hand(other, KEY):
            thread = threading.Thread(target=other.execute, args=["SELECT pg_advisory_lock(1)"])
            thread.start()
            with pytest.raises(errors.DeadlockDetected):
                side.run(conn, JOB, xact=xact, wait=timedelta(seconds=20))
            assert held_by(janitor, conn.info.backend_pid) == [(0, 1, 1, "ExclusiveLock")]
            side.do(conn, sql("SELECT pg_advisory_unlock_all()"), lambda c: c.commit())
            thread.join()
        assert side.run(conn, JOB, xact=xact)

    @both_kinds
    def test_whose_time_out_races_with_the_grant(
        self, side: Side, dsn: str, connect: Connect, janitor: Connection, *, xact: bool
    ) -> None:
        """A wait that has timed out may own the lock after all."""
        conn, other = side.connect(dsn, autocommit=True), connect()
        ran: list[Conn] = []
        wait, outcomes = timedelta(milliseconds=6), set()
        for round_ in range(120):
            after = 0.004 + round_ % 12 / 4000
            with locked_by_hand(other, KEY):
                release = threading.Timer(after, other.execute, ["SELECT pg_advisory_unlock_all()"])
                release.start()
                outcome = side.run(conn, JOB, ran.append, xact=xact, wait=wait)
                release.join()
            assert bool(ran) is outcome
            assert advisory_locks(janitor) == []
            outcomes.add(outcome)
            ran.clear()
        assert outcomes == {True, False}


def fill(session: Connection) -> int:
    """Take the locks 0, 1, 2, … until there is no room for another; return how many they are."""
    for number in count():
        try:
            session.execute(f"SELECT pg_advisory_lock({number})".encode())
        except errors.OutOfMemory:
            break
    return number


@both_kinds
def test_a_full_lock_table_costs_the_stamp_and_not_the_lock(
    side: Side, start_server: StartServer, *, xact: bool
) -> None:
    server = start_server(
        {"max_locks_per_transaction": 10, "max_connections": 10, "max_prepared_transactions": 0}
    )
    conn = side.connect(server.dsn())
    assert side.run(conn, JOB, xact=xact)  # what is in its caches needs no lock later
    with psycopg.connect(server.dsn(), autocommit=True) as hog:
        taken = fill(hog)
        seen: list[Any] = []

        def look(_: Conn) -> None:
            seen.extend(hog.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchall())

        with pytest.raises(errors.OutOfMemory):
            side.run(conn, JOB, look, xact=xact)
        hog.execute("SELECT pg_advisory_unlock(0)")
        for wait in (timedelta(), SECOND):
            assert side.run(conn, JOB, look, xact=xact, wait=wait)
        assert seen == [(taken,), (taken,)]  # one for one
        assert hog.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (
            taken - 1,
        )
        hog.execute("SELECT pg_advisory_unlock(1)")
        seen.clear()
        assert side.run(conn, JOB, look, xact=xact)
        assert seen == [(taken,)]  # lock and stamp again


class TestWrongArguments:
    @pytest.mark.parametrize("name", [None, 42, b"job"])
    def test_a_name_that_is_none(self, side: Side, conn: Conn, name: Any) -> None:  # noqa: ANN401
        with pytest.raises(TypeError, match="a lock's name is a str, not"):
            side.run(conn, name)

    def test_a_connection_of_the_other_kind(self, dsn: str, side: Side, conn: Conn) -> None:
        with psycopg.connect(dsn) as sync:
            wrong: Any = None if isinstance(conn, psycopg.Connection) else sync
            with pytest.raises(NotAPsycopgConnection, match="connection string"):
                side.run(wrong, JOB)

    def test_on_lost_with_a_connection_that_is_not_ours_to_watch(self, side: Side, conn: Conn) -> None:
        with pytest.raises(TypeError, match="on_lost needs a connection string"):
            side.run(conn, JOB, on_lost=print)

    def test_a_coroutine_function_for_a_job(self, dsn: str) -> None:
        async def job() -> None: ...

        with psycopg.connect(dsn) as conn, pytest.raises(TypeError, match=r"use arun_with_lock\(\)"):
            run_with_lock(conn, JOB, job)

    def test_a_generator_function_for_a_job(self, dsn: str) -> None:
        def job() -> Iterator[None]:
            yield

        with psycopg.connect(dsn) as conn, pytest.raises(TypeError, match="since it is a generator function"):
            run_with_lock(conn, JOB, job)

    def test_an_option_that_there_is_not(self, side: Side, conn: Conn) -> None:
        misspelt: Any = {"schema": "hashtextextended"}
        with pytest.raises(TypeError, match="there is no option schema: choose of scheme, "):
            side.run(conn, JOB, **misspelt)

    @pytest.mark.parametrize("wait", [None, 5, 0.5, "5s"])
    def test_a_wait_that_is_no_timedelta(self, side: Side, conn: Conn, wait: Any) -> None:  # noqa: ANN401
        with pytest.raises(TypeError, match="wait is a timedelta, not "):
            side.run(conn, JOB, wait=wait)

"""What is held and waited for, as a reader shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import seconds_between
from pglock_inspect.postgres import Reader
from tests.support.snapshots import begin_waiting, key, keys_of, read_once, rows_of
from tests.support.waiting import wait_until
from tests.support.watching import begin, finish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect, Connection

EXCLUSIVE, SHARE = "ExclusiveLock", "ShareLock"
INT_MAX = (1 << 31) - 1
DIGEST = "hashtext('send_daily_digest')"


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    with Reader(dsn) as reader:
        yield reader


@pytest.mark.parametrize(
    ("statement", "held", "mode"),
    [
        ("SELECT pg_advisory_lock(1)", key(1), EXCLUSIVE),
        ("SELECT pg_advisory_lock_shared(-2)", key(-2), SHARE),
        ("SELECT pg_try_advisory_lock(9223372036854775807)", key((1 << 63) - 1), EXCLUSIVE),
        ("SELECT pg_advisory_lock(3, -4)", key((3, -4)), EXCLUSIVE),
        ("SELECT pg_try_advisory_lock_shared(-2147483648, 2147483647)", key((-(1 << 31), INT_MAX)), SHARE),
        (f"SELECT pg_advisory_lock({DIGEST})", AdvisoryKey(4294967295, 2337752054, 1), EXCLUSIVE),
    ],
)  # fmt: skip
def test_a_session_lock_shows_until_it_is_unlocked(
    connect: Connect, reader: Reader, statement: str, held: AdvisoryKey, mode: str
) -> None:
    worker = connect()
    worker.execute(statement.encode())
    assert keys_of(reader.read(), worker) == {(held, mode)}
    worker.execute(b"SELECT pg_advisory_unlock_all()")
    assert keys_of(reader.read(), worker) == set()


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_a_transaction_lock_shows_until_its_transaction_ends(
    connect: Connect, reader: Reader, end: str
) -> None:
    worker = connect()
    worker.execute("BEGIN")
    worker.execute("SELECT pg_advisory_xact_lock(5), pg_advisory_xact_lock_shared(5, 6)")
    assert keys_of(reader.read(), worker) == {(key(5), EXCLUSIVE), (key((5, 6)), SHARE)}
    worker.execute(end.encode())
    assert keys_of(reader.read(), worker) == set()


def test_stacked_holds_are_one_lock_and_two_modes_are_two(connect: Connect, reader: Reader) -> None:
    worker = connect()
    for _ in range(3):
        worker.execute("SELECT pg_advisory_lock(7)")
    worker.execute("SELECT pg_advisory_lock_shared(7)")
    assert keys_of(reader.read(), worker) == {(key(7), EXCLUSIVE), (key(7), SHARE)}
    worker.execute("SELECT pg_advisory_unlock(7)")
    assert (key(7), EXCLUSIVE) in keys_of(reader.read(), worker)


def test_the_same_number_as_bigint_and_as_pair_are_two_keys(connect: Connect, reader: Reader) -> None:
    worker = connect()
    worker.execute("SELECT pg_advisory_lock(8), pg_advisory_lock(0, 8)")
    assert keys_of(reader.read(), worker) == {(key(8), EXCLUSIVE), (key((0, 8)), EXCLUSIVE)}


def test_thousands_of_locks_of_a_session_are_one_group_of_rows(connect: Connect, reader: Reader) -> None:
    worker = connect()
    worker.execute("SELECT count(pg_advisory_lock(i)) FROM generate_series(-1000, 1000) AS i")
    (rows,) = rows_of(reader.read(), worker)
    assert {rows.key(packed).value for packed in rows.keys} == set(range(-1000, 1001))


def test_what_did_not_change_is_the_same_object_and_what_did_is_not(connect: Connect, reader: Reader) -> None:
    still, busy = connect(), connect()
    still.execute("SELECT pg_advisory_lock(1), pg_advisory_lock(2)")
    busy.execute("SELECT pg_advisory_lock(3), pg_advisory_lock(4)")
    first = reader.read()
    busy.execute("SELECT pg_advisory_unlock(4), pg_advisory_lock(5)")
    second = reader.read()
    assert rows_of(first, still)[0] is rows_of(second, still)[0]
    assert first.sessions[still.info.backend_pid] is second.sessions[still.info.backend_pid]
    assert {value for value, _ in keys_of(second, busy)} == {key(3), key(5)}
    assert (
        second.sessions[busy.info.backend_pid].state_change
        != first.sessions[busy.info.backend_pid].state_change
    )


def test_new_transactions_of_a_holder_leave_its_keys_the_same_object(
    connect: Connect, reader: Reader
) -> None:
    worker = connect()
    worker.execute("SELECT pg_advisory_lock(1)")
    first = reader.read()
    worker.execute("BEGIN")
    second = reader.read()
    assert rows_of(first, worker)[0].keys is rows_of(second, worker)[0].keys
    assert rows_of(first, worker)[0].backend_number == rows_of(second, worker)[0].backend_number


def test_a_waiter_shows_with_when_it_began_to_wait(
    connect: Connect, janitor: Connection, reader: Reader
) -> None:
    holder, waiter = connect("holder"), connect("waiter")
    holder.execute(f"SELECT pg_advisory_lock({DIGEST})".encode())
    begin_waiting(waiter, f"SELECT pg_advisory_lock({DIGEST})", janitor)
    snapshot = reader.read()
    assert keys_of(snapshot, holder) == keys_of(snapshot, waiter, granted=False)
    session = snapshot.sessions[waiter.info.backend_pid]
    assert session.wait_event == "Lock/advisory"
    assert session.query == f"SELECT pg_advisory_lock({DIGEST})"
    (rows,) = rows_of(snapshot, waiter, granted=False)
    if snapshot.server.shows_waitstart:
        assert rows.waitstart is not None
        assert 0 <= seconds_between(rows.waitstart, snapshot.taken_at) < 60
    else:
        assert rows.waitstart is None
    holder.execute(f"SELECT pg_advisory_unlock({DIGEST})".encode())
    finish(waiter)
    assert keys_of(reader.read(), waiter) == {(AdvisoryKey(4294967295, 2337752054, 1), EXCLUSIVE)}


def test_a_lone_waiter_is_not_asked_about_and_those_of_a_queue_are(
    connect: Connect, janitor: Connection, reader: Reader
) -> None:
    holder, first, second = connect(), connect(), connect()
    holder.execute("SELECT pg_advisory_lock(1)")
    begin_waiting(first, "SELECT pg_advisory_lock(1)", janitor)
    assert reader.read().blocking == {}
    begin_waiting(second, "SELECT pg_advisory_lock(1)", janitor)
    blocking = reader.read().blocking
    pids = [connection.info.backend_pid for connection in (holder, first, second)]
    assert blocking == {pids[1]: (pids[0],), pids[2]: (pids[0], pids[1])}


def test_a_holder_that_upgrades_is_ahead_of_who_waited_before_it(
    connect: Connect, janitor: Connection, reader: Reader
) -> None:
    holder, other, waiter = connect(), connect(), connect()
    holder.execute("SELECT pg_advisory_lock_shared(1)")
    other.execute("SELECT pg_advisory_lock_shared(1)")
    begin_waiting(waiter, "SELECT pg_advisory_lock(1)", janitor)
    begin_waiting(holder, "SELECT pg_advisory_lock(1)", janitor)
    snapshot = reader.read()
    assert keys_of(snapshot, holder) == {(key(1), SHARE)}
    assert keys_of(snapshot, holder, granted=False) == {(key(1), EXCLUSIVE)}
    assert snapshot.blocking[holder.info.backend_pid] == (other.info.backend_pid,)
    assert holder.info.backend_pid in snapshot.blocking[waiter.info.backend_pid]


def test_locks_of_another_database_bear_its_name(connect: Connect, dsn: str, database: str) -> None:
    here, there = connect(), connect(dbname=database)
    here.execute("SELECT pg_advisory_lock(1)")
    there.execute("SELECT pg_advisory_lock(1)")
    snapshot = read_once(dsn)
    names = {
        connection: snapshot.databases[rows_of(snapshot, connection)[0].database].name
        for connection in (here, there)
    }
    assert names == {here: "postgres", there: database}
    assert snapshot.sessions[there.info.backend_pid].database == database


def test_a_database_made_while_watching_is_known_soon(
    connect: Connect, dsn: str, janitor: Connection
) -> None:
    seconds = 0.0
    with Reader(dsn, clock=lambda: seconds) as reader:
        reader.read()
        janitor.execute("CREATE DATABASE pglock_new")
        try:
            connect(dbname="pglock_new").execute("SELECT pg_advisory_lock(1)")
            oid = janitor.execute("SELECT oid FROM pg_database WHERE datname = 'pglock_new'").fetchone()
            assert oid is not None
            assert oid[0] not in reader.read().databases
            seconds += 6  # asked for what has no name not more often than that
            assert reader.read().databases[oid[0]].name == "pglock_new"
        finally:
            janitor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'pglock_new'"
            )
            wait_until(
                lambda: (
                    not janitor.execute(
                        "SELECT FROM pg_stat_activity WHERE datname = 'pglock_new'"
                    ).fetchone()
                ),
                "the sessions are gone",
            )
            janitor.execute("DROP DATABASE pglock_new")


def test_a_wait_for_another_lock_shows_as_such(
    connect: Connect, janitor: Connection, reader: Reader, database: str
) -> None:
    owner, waiter = connect(dbname=database), connect(dbname=database)
    owner.execute("CREATE TABLE wanted ()")
    owner.execute("BEGIN")
    owner.execute("LOCK TABLE wanted")
    waiter.execute("SELECT pg_advisory_lock(1)")
    begin_waiting(waiter, "SELECT FROM wanted", janitor)
    snapshot = reader.read()
    (wait,) = [wait for wait in snapshot.other_waits if wait.pid == waiter.info.backend_pid]
    assert (wait.locktype, wait.mode) == ("relation", "AccessShareLock")
    assert (wait.waitstart is not None) == snapshot.server.shows_waitstart
    assert snapshot.blocking[waiter.info.backend_pid] == (owner.info.backend_pid,)


def test_every_process_is_there_the_servers_own_and_the_readers_too(reader: Reader) -> None:
    sessions = reader.read().sessions
    types = {session.backend_type for session in sessions.values()}
    assert {"client backend", "checkpointer", "walwriter", "autovacuum launcher"} <= types
    own = sessions[reader.connection.info.backend_pid]
    assert own.application_name == "pglock-inspect"
    checkpointer = next(each for each in sessions.values() if each.backend_type == "checkpointer")
    assert (checkpointer.user, checkpointer.database, checkpointer.client) == (None, None, None)


def test_the_number_of_rows_leaves_fast_path_locks_out(
    connect: Connect, janitor: Connection, reader: Reader
) -> None:
    worker = connect()
    worker.execute("BEGIN")
    worker.execute("SELECT count(pg_advisory_xact_lock(i)) FROM generate_series(1, 500) AS i")
    worker.execute("SELECT FROM pg_class, pg_type LIMIT 1")  # weak locks of relations: fast path
    counted = "SELECT count(*) FILTER (WHERE fastpath), count(*) FILTER (WHERE NOT fastpath) FROM pg_locks"

    def is_as_counted() -> bool:  # but when a process of the server's own took a lock in between
        fast, others = janitor.execute(counted).fetchone() or (0, 0)
        return bool(fast >= 2 and 500 <= others == reader.read().lock_table_rows)

    wait_until(is_as_counted, "the number is that of the locks that take room")


def test_ages_are_of_a_moment_before_the_locks_were_read(connect: Connect, reader: Reader) -> None:
    worker = connect()
    before = worker.execute("SELECT clock_timestamp()").fetchone()
    snapshot = reader.read()
    after = worker.execute("SELECT clock_timestamp()").fetchone()
    assert before is not None
    assert after is not None
    moment = reader.connection.execute(
        "SELECT timestamptz '2000-01-01 00:00:00+00' + %s * interval '1 microsecond' BETWEEN %s AND %s",
        [snapshot.taken_at, before[0], after[0]],
    ).fetchone()
    assert moment == (True,)
    assert snapshot.asked_at <= snapshot.answered_at
    assert 0 < snapshot.poll_seconds < 60


def test_a_session_that_ends_between_locks_and_activity_leaves_its_lock_row(
    connect: Connect, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock table is read first: who ends after that has locks and no session."""
    worker = connect()
    pid = worker.info.backend_pid
    worker.execute("SELECT pg_advisory_lock(1)")
    execute = Reader._execute

    def end_the_worker_between(self: Reader, cursor: object, name: str) -> None:
        if name == "activity":
            self.connection.execute("SELECT pg_terminate_backend(%s), pg_sleep(0.5)", [pid])
        execute(self, cursor, name)  # type: ignore[arg-type]

    monkeypatch.setattr(Reader, "_execute", end_the_worker_between)
    snapshot = reader.read()
    assert keys_of(snapshot, pid) == {(key(1), EXCLUSIVE)}
    assert pid not in snapshot.sessions
    worker.close()


def test_a_waiter_whose_statement_is_still_running_has_no_lock_after_cancel(
    connect: Connect, janitor: Connection, reader: Reader
) -> None:
    holder, waiter = connect(), connect()
    holder.execute("SELECT pg_advisory_lock(1)")
    begin_waiting(waiter, "SELECT pg_advisory_lock(1)", janitor)
    waiter.cancel()
    assert finish(waiter) == "57014"
    snapshot = reader.read()
    assert rows_of(snapshot, waiter, granted=False) == []
    assert rows_of(snapshot, waiter) == []


def test_one_reading_of_a_reader_that_connects_for_it(connect: Connect, dsn: str) -> None:
    worker = connect()
    worker.execute("SELECT pg_advisory_lock(1)")
    begin(worker, "SELECT pg_sleep(60)")
    assert keys_of(read_once(dsn), worker) == {(key(1), EXCLUSIVE)}

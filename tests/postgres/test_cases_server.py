"""Trouble with servers: what a watcher says of VACUUM, prepared transactions, replication and crashes."""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

import psycopg
import pytest

from pglock_inspect.demo.server import TemporaryServer
from pglock_inspect.model import Job, Limits
from pglock_inspect.schemes import key_of
from tests.support.servers import SETTINGS, bindir
from tests.support.snapshots import begin_waiting
from tests.support.waiting import wait_until
from tests.support.watching import await_lock, begin, finish, found, lock_of, locks_of, soon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.model import Lock, Report
    from tests.support.servers import Connect, Connection
    from tests.support.watching import Watch

NIGHTLY = key_of("nightly", "hashtext")
TAKE = "SELECT pg_advisory_lock(hashtext('nightly'))"
NOT_REMOVED = re.compile(r"(\d+) (?:are dead but not yet removable|dead row versions cannot be removed yet)")
TAKE_XACT = "SELECT pg_advisory_xact_lock(hashtext('nightly'))"


@pytest.fixture(scope="module")
def own_server() -> Iterator[TemporaryServer]:
    """A server that may replicate, be restarted, and crash."""
    settings = {**SETTINGS, "wal_level": "logical"}
    with TemporaryServer(bindir=bindir(), settings=settings) as server:
        yield server


@pytest.fixture
def bloat(janitor: Connection) -> Iterator[str]:
    """A table whose rows all change; ask for it before `connect`."""
    name = "pglock_test_bloat"
    janitor.execute(f"CREATE TABLE {name} WITH (autovacuum_enabled = off) AS SELECT 1 AS id")
    yield name
    janitor.execute(f"DROP TABLE {name}")


@pytest.mark.parametrize(
    ("statements", "kept"),
    [
        ((TAKE,), False),
        (("BEGIN", TAKE_XACT), False),
        (("BEGIN", TAKE_XACT, "CREATE TEMP TABLE written ()"), True),
        (("BEGIN ISOLATION LEVEL REPEATABLE READ", TAKE_XACT), True),
    ],
    ids=["session", "transaction", "wrote", "repeatable read"],
)
def test_a_holder_is_said_to_hold_back_vacuum_where_it_does(
    bloat: str,
    connect: Connect,
    watch: Watch,
    janitor: Connection,
    statements: tuple[str, ...],
    *,
    kept: bool,
) -> None:
    holder = connect()
    for statement in statements:
        holder.execute(statement)
    watcher = watch(Job("nightly"), thresholds={"vacuum-held-back": 1e-6})
    said: list[str] = []
    janitor.add_notice_handler(
        notice := lambda diagnostic: said.append(f"{diagnostic.message_primary} {diagnostic.message_detail}")
    )
    try:
        janitor.execute(f"UPDATE {bloat} SET id = id + 1")
        janitor.execute(f"VACUUM (VERBOSE) {bloat}")
    finally:
        janitor.remove_notice_handler(notice)
    report = watcher.poll()
    assert lock_of(report, holder).key == NIGHTLY
    assert bool(found(report, "vacuum-held-back", pid=holder.info.backend_pid)) is kept
    (dead,) = {number for text in said for number in NOT_REMOVED.findall(text)}
    assert dead == ("1" if kept else "0")


def test_one_lock_in_both_levels_cannot_be_prepared(connect: Connect, watch: Watch) -> None:
    both, session = connect(), connect()
    both.execute(f"{TAKE}; BEGIN; {TAKE_XACT}")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="both session-level and transaction-level"):
        both.execute("PREPARE TRANSACTION 'both'")
    session.execute("SELECT pg_advisory_lock(4242); BEGIN; PREPARE TRANSACTION 'without the lock'")
    report = watch(Job("nightly"), thresholds={"prepared": 1e-6}).poll()
    assert [lock_of(report, each).prepared for each in (both, session)] == [None, None]
    assert len(report.locks) == 2
    assert not found(report, "prepared")


def test_six_thousand_locks_and_a_queue_are_few_findings(
    connect: Connect, watch: Watch, janitor: Connection
) -> None:
    hoarder, holder, *queue = (connect() for _ in range(8))
    hoarder.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 6000) AS n")
    holder.execute(TAKE)
    for waiter in queue:
        begin_waiting(waiter, TAKE, janitor)
    report = watch(Job("nightly")).poll()
    assert len(report.locks) == 6007
    assert {finding.rule for finding in report.findings} == {"many-locks-one-session", "unnamed"}
    assert report.chain.keys() == {each.info.backend_pid for each in (holder, *queue)}


def _prepared(report: Report) -> Lock:
    assert report.error is None, report.error
    (lock,) = [lock for lock in report.locks if lock.granted]
    assert lock.pid is None
    assert lock.prepared is not None
    assert lock.held is not None
    return lock


def test_a_prepared_transaction_outlives_its_session_and_its_server(
    own_server: TemporaryServer, watch: Watch
) -> None:
    watcher = watch(
        Job("nightly", limits=Limits(3600, 0.01)), dsn=own_server.dsn(), thresholds={"prepared": 0.01}
    )
    with psycopg.connect(own_server.dsn(), autocommit=True) as preparer:
        for statement in ("BEGIN", TAKE_XACT, "PREPARE TRANSACTION 'nightly-42'"):
            preparer.execute(statement)
    with psycopg.connect(own_server.dsn(), autocommit=True) as waiter:
        begin(waiter, TAKE)
        lock = await_lock(watcher, waiter, granted=False)
        assert lock.blocked_by == ("nightly-42",)
        finding = soon(watcher, "waiting-long", pid=waiter.info.backend_pid)
        assert finding.summary.endswith("; held by prepared transaction 'nightly-42'")
        before = _prepared(watcher.poll())
        own_server.restart()
        finish(waiter)
    wait_until(lambda: watcher.poll().error is None, "the server is back")
    after = _prepared(watcher.poll())
    assert after.prepared == before.prepared
    assert after.held is not None
    assert before.held is not None
    assert after.held.evidence == "prepared"
    assert (after.held.at_least or 0) > (before.held.at_least or 0)
    suggestion = soon(watcher, "prepared", job="nightly").suggestion
    assert suggestion.startswith("ROLLBACK PREPARED 'nightly-42'  -- in database postgres")
    with psycopg.connect(own_server.dsn(), autocommit=True) as administrator:
        administrator.execute(suggestion)
    assert watcher.poll().locks == ()


def test_a_crash_of_any_session_frees_all_locks(own_server: TemporaryServer, watch: Watch) -> None:
    watcher = watch(Job("nightly"), dsn=own_server.dsn())
    with (
        psycopg.connect(own_server.dsn(), autocommit=True) as holder,
        psycopg.connect(own_server.dsn(), autocommit=True) as unrelated,
    ):
        holder.execute(TAKE)
        lock_of(watcher.poll(), holder)
        os.kill(unrelated.info.backend_pid, signal.SIGKILL)
        lost = wait_until(lambda: [report for report in [watcher.poll()] if report.error], "it is noticed")[0]
        assert lost.failure == "connect"
        assert (lost.locks, lost.findings) == ((), ())
        wait_until(lambda: watcher.poll().error is None, "the server is back")
        assert locks_of(watcher.poll(), holder) == []
        with pytest.raises(psycopg.OperationalError):
            holder.execute("SELECT 1")


def test_a_replica_that_waits_in_a_trigger_is_shown_for_what_it_is(
    own_server: TemporaryServer, watch: Watch
) -> None:
    with (
        psycopg.connect(own_server.dsn(), autocommit=True) as publisher,
        psycopg.connect(own_server.dsn(), autocommit=True) as creator,
    ):
        creator.execute("CREATE DATABASE subscriber")
        with psycopg.connect(own_server.dsn(dbname="subscriber"), autocommit=True) as subscriber:
            publisher.execute("CREATE TABLE orders (id int PRIMARY KEY)")
            publisher.execute("CREATE PUBLICATION orders FOR TABLE orders")
            publisher.execute("SELECT pg_create_logical_replication_slot('orders', 'pgoutput')")
            subscriber.execute(f"""
                CREATE TABLE orders (id int PRIMARY KEY);
                CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN PERFORM pg_advisory_xact_lock(hashtext('nightly')); RETURN NEW; END $$;
                CREATE TRIGGER wait BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION wait();
                ALTER TABLE orders ENABLE ALWAYS TRIGGER wait;
                {TAKE}""")
            subscriber.execute(
                f"CREATE SUBSCRIPTION orders CONNECTION '{own_server.dsn()}' PUBLICATION orders "
                "WITH (create_slot = false, slot_name = 'orders', copy_data = false)"
            )
            publisher.execute("INSERT INTO orders VALUES (1)")
            watcher = watch(Job("nightly", limits=Limits(max_wait=0.05)), dsn=own_server.dsn())
            finding = soon(watcher, "waiting-long", job="nightly")
            assert finding.database == "subscriber"
            assert ", logical replication " in finding.summary
            assert "worker) has waited for " in finding.summary
            assert f"; held by pid {subscriber.info.backend_pid} (postgres)" in finding.summary
            (waiter,) = [lock for lock in watcher.poll().locks if not lock.granted]
            assert waiter.session is not None
            assert waiter.session.query == ""
            subscriber.execute("SELECT pg_advisory_unlock_all()")
            subscriber.execute("DROP SUBSCRIPTION orders")

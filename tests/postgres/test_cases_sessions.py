"""Trouble with holders: what a watcher says of locks left behind, lost, or held by who is gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, Limits
from tests.support.waiting import wait_until
from tests.support.watching import await_lock, begin, finish, found, held_of, lock_of, locks_of, soon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect, Connection
    from tests.support.watching import Watch

SHORT = Limits(max_held=0.05)
TAKE = "SELECT pg_advisory_lock(hashtext('nightly'))"


def answer(connection: Connection, query: str) -> object:
    (value,) = connection.execute(query).fetchone() or (None,)
    return value


def cut(connection: Connection) -> None:
    """Leave as a killed process does: without a word, its socket closed by the kernel."""
    with socket.socket(fileno=os.dup(connection.fileno())) as copy:
        copy.shutdown(socket.SHUT_RDWR)


def test_a_rollback_after_an_error_keeps_the_lock(connect: Connect, watch: Watch) -> None:
    worker = connect("cron", autocommit=False)
    watcher = watch(Job("nightly", limits=SHORT))
    worker.execute(TAKE)
    with pytest.raises(psycopg.errors.DivisionByZero):
        worker.execute("SELECT 1/0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        worker.execute("SELECT pg_advisory_unlock(hashtext('nightly'))")
    lock = lock_of(watcher.poll(), worker)
    assert lock.session is not None
    assert lock.session.state == "idle in transaction (aborted)"
    assert lock.session.xact_start is None
    assert lock.held is not None
    assert lock.held.evidence == "session_state"
    worker.rollback()
    finding = soon(watcher, "leaked", pid=worker.info.backend_pid, severity="warning")
    assert finding.evidence.endswith("its last statement a ROLLBACK")
    assert f"kill {worker.info.backend_pid} --terminate" in finding.suggestion
    soon(watcher, "stale", job="nightly", severity="critical")


def test_an_unlock_elsewhere_or_in_the_wrong_mode_changes_nothing(connect: Connect, watch: Watch) -> None:
    holder, other = connect(), connect()
    watcher = watch(Job("nightly"))
    holder.execute(TAKE)
    before = watcher.poll()
    assert answer(other, "SELECT pg_advisory_unlock(hashtext('nightly'))") is False
    assert answer(holder, "SELECT pg_advisory_unlock_shared(hashtext('nightly'))") is False
    after = watcher.poll()
    assert lock_of(after, holder).key == lock_of(before, holder).key
    assert lock_of(after, holder).mode == lock_of(before, holder).mode == "ExclusiveLock"
    grown_older = (held_of(after, holder).at_most or 0) - (held_of(before, holder).at_most or 0)
    assert grown_older == pytest.approx((after.taken_at - before.taken_at) / 1e6)
    assert not locks_of(after, other)


def test_a_lock_taken_three_times_is_one_row_and_never_said_to_be_held_once(
    connect: Connect, watch: Watch
) -> None:
    leader, watcher = connect(), watch(Job("nightly"))
    for _ in range(3):
        assert answer(leader, "SELECT pg_try_advisory_lock(hashtext('nightly'))") is True
    for _ in range(2):
        assert answer(leader, "SELECT pg_advisory_unlock(hashtext('nightly'))") is True
        lock_of(watcher.poll(), leader)
    leader.execute("SELECT 1")
    assert "as often as it took it" in soon(watcher, "leaked", job="nightly").suggestion
    assert answer(leader, "SELECT pg_advisory_unlock(hashtext('nightly'))") is True
    assert not locks_of(watcher.poll(), leader)


def test_nobody_is_told_to_unlock_what_ends_with_its_transaction(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute("BEGIN; SELECT pg_advisory_xact_lock(hashtext('nightly'))")
    assert answer(worker, "SELECT pg_advisory_unlock(hashtext('nightly'))") is False
    worker.execute("SELECT pg_advisory_unlock_all()")
    watcher = watch(
        Job("nightly", scope="transaction", limits=SHORT), thresholds={"idle-in-transaction": 0.05}
    )
    soon(watcher, "idle-in-transaction", job="nightly")
    soon(watcher, "stale", job="nightly")
    findings = watcher.poll().findings
    assert {finding.rule for finding in findings} == {"idle-in-transaction", "stale"}
    assert not [finding for finding in findings if "unlock" in finding.suggestion]
    worker.execute("ROLLBACK")
    assert not locks_of(watcher.poll(), worker)


def test_a_lock_goes_back_to_the_pool_with_its_connection(connect: Connect, watch: Watch) -> None:
    pooled, other = connect("web-pool"), connect("web-pool")
    pooled.execute("BEGIN; SELECT pg_advisory_lock(hashtext('nightly')); COMMIT")
    for borrower in (other, pooled):
        borrower.execute("SELECT 'GET /health'")
    finding = soon(watch(Job("nightly")), "leaked", job="nightly")
    assert finding.pid == pooled.info.backend_pid
    assert "may have been left behind" in finding.summary
    take_again = "SELECT pg_try_advisory_lock(hashtext('nightly'))"
    assert (answer(pooled, take_again), answer(other, take_again)) == (True, False)


def test_an_xact_lock_in_autocommit_is_never_seen(connect: Connect, watch: Watch) -> None:
    worker = connect()
    watcher = watch(Job("nightly", every=0.2, min_held=60))
    assert answer(worker, "SELECT pg_try_advisory_xact_lock(hashtext('nightly'))") is True
    assert not locks_of(watcher.poll(), worker)
    assert soon(watcher, "never-seen", job="nightly").severity == "warning"


def test_a_commit_within_a_procedure_drops_its_lock(connect: Connect, watch: Watch) -> None:
    worker, gate = connect(), connect()
    watcher = watch(Job("nightly", scope="transaction"))
    worker.execute("""CREATE PROCEDURE pg_temp.nightly() LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_advisory_xact_lock(hashtext('nightly'));
            PERFORM pg_advisory_xact_lock(42);
            COMMIT;
            PERFORM pg_sleep(60);
        END $$""")
    gate.execute("SELECT pg_advisory_lock(42)")
    begin(worker, "CALL pg_temp.nightly()")
    wait_until(lambda: locks_of(watcher.poll(), worker, granted=False), "it is at the gate")
    assert lock_of(watcher.poll(), worker).scope == "transaction"
    gate.execute("SELECT pg_advisory_unlock(42)")
    wait_until(lambda: not locks_of(watcher.poll(), worker), "it has committed")
    worker.cancel()
    assert finish(worker) == "57014"  # it was still running


def test_a_killed_idle_client_is_noticed_at_once(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch(Job("nightly"))
    worker.execute(TAKE)
    assert lock_of(watcher.poll(), worker).findings == ()
    cut(worker)
    wait_until(lambda: not locks_of(watcher.poll(), worker), "the lock is free")


def test_a_killed_client_of_a_busy_session_is_not(connect: Connect, watch: Watch) -> None:
    worker, job = connect(), Job("nightly", limits=SHORT)
    worker.execute(TAKE)
    begin(worker, "SELECT pg_sleep(60)")
    cut(worker)
    critical = {"job": "nightly", "severity": "critical"}
    finding = wait_until(lambda: found(watch(job).poll(), "stale", **critical), "one poll is enough")[0]
    assert finding.evidence.endswith("(evidence: statement)")
    assert "seems to have held it" in finding.summary
    lock = lock_of(watch(job).poll(), worker)
    assert lock.session is not None
    assert lock.session.state == "active"
    assert "leaked" not in lock.findings


@pytest.mark.postgres(14)
def test_a_server_that_looks_for_its_client_notices(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch()
    worker.execute("SET client_connection_check_interval = '50ms'")
    worker.execute(TAKE)
    begin(worker, "SELECT pg_sleep(60)")
    cut(worker)
    wait_until(lambda: not locks_of(watcher.poll(), worker), "the lock is free")


@contextmanager
def half_open(dsn: str) -> Iterator[str]:
    """A way to a server on which the end of a client gets lost; yields the connection string."""
    server = conninfo_to_dict(dsn)

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(8192):
                target.sendall(data)

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        through = make_conninfo(dsn, host="127.0.0.1", port=listener.getsockname()[1], sslmode="disable")
        ends: list[socket.socket] = []

        def serve() -> None:
            client, _ = listener.accept()
            upstream = socket.create_connection((str(server["host"]), int(server["port"] or 5432)))
            ends.extend((client, upstream))
            threads.extend(
                threading.Thread(target=pump, args=pair) for pair in ((client, upstream), (upstream, client))
            )
            for thread in threads[1:]:
                thread.start()

        threads = [threading.Thread(target=serve)]
        threads[0].start()
        try:
            yield through
        finally:
            for end in ends:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for end in ends:
                end.close()


def test_a_client_that_is_gone_without_a_trace_looks_like_an_idle_one(
    dsn: str, watch: Watch, janitor: Connection
) -> None:
    with half_open(dsn) as through, psycopg.connect(through, autocommit=True) as worker:
        worker.execute(TAKE)
        pid = worker.info.backend_pid
        cut(worker)
        watcher = watch(Job("nightly", limits=SHORT))
        finding = soon(watcher, "stale", job="nightly")
        assert finding.suggestion == f"pglock-inspect kill {pid} --terminate"
        assert lock_of(watcher.poll(), worker).findings == ("stale",)
        janitor.execute("SELECT pg_terminate_backend(%s)", [pid])
        wait_until(lambda: not locks_of(watcher.poll(), worker), "the lock is free")


FROZEN = """
import sys, time, psycopg
worker = psycopg.connect(sys.argv[1], autocommit=True)
worker.execute("SELECT pg_advisory_lock(hashtext('nightly'))")
print(worker.info.backend_pid, flush=True)
while True:
    worker.execute("SELECT 1")
    time.sleep(0.01)
"""


def test_a_frozen_client_misses_its_beats_and_a_live_one_does_not(dsn: str, watch: Watch) -> None:
    watcher = watch(Job("nightly", heartbeat=1, limits=Limits(max_held=3600)))
    with subprocess.Popen([sys.executable, "-c", FROZEN, dsn], stdout=subprocess.PIPE, text=True) as leader:
        try:
            assert leader.stdout is not None
            pid = int(leader.stdout.readline())
            report = watcher.poll()
            (lock,) = [lock for lock in report.locks if lock.pid == pid]
            assert lock.findings == ()
            leader.send_signal(signal.SIGSTOP)
            finding = soon(watcher, "no-heartbeat", job="nightly")
            assert (finding.severity, finding.pid) == ("critical", pid)
        finally:
            leader.kill()
    wait_until(lambda: not watcher.poll().locks, "the lock is free")


def test_who_takes_over_starts_a_hold_of_its_own(connect: Connect, watch: Watch, janitor: Connection) -> None:
    old, new = connect("leader-a"), connect("leader-b")
    watcher = watch(Job("nightly"))
    old.execute(TAKE)
    begin(new, TAKE)
    await_lock(watcher, new, granted=False)
    before = watcher.poll()
    assert lock_of(before, new, granted=False).blocked_by == (old.info.backend_pid,)
    janitor.execute("SELECT pg_terminate_backend(%s)", [old.info.backend_pid])
    assert finish(new) is None
    assert not old.closed  # the old leader does not know
    report = watcher.poll()
    assert not locks_of(report, old)
    assert (held_of(report, new).at_most or 3600) <= (report.taken_at - before.taken_at) / 1e6


def test_a_cancel_changes_nothing_about_a_holder(connect: Connect, watch: Watch, janitor: Connection) -> None:
    idle, busy, waiter = connect(), connect(), connect()
    watcher = watch(Job("nightly", limits=Limits(0.05, 0.05)), limits=Limits(0.05, 0.05))
    idle.execute(TAKE)
    busy.execute("SELECT pg_advisory_lock(4242)")
    begin(busy, "SELECT pg_sleep(60)")
    begin(waiter, TAKE)
    await_lock(watcher, waiter, granted=False)
    for session in (idle, busy):
        assert answer(janitor, f"SELECT pg_cancel_backend({session.info.backend_pid})") is True
    assert finish(busy) == "57014"  # its work is lost, and its lock is not free
    for session in (idle, busy):
        finding = soon(watcher, "stale", pid=session.info.backend_pid)
        assert finding.suggestion == f"pglock-inspect kill {session.info.backend_pid} --terminate"
    waiting = soon(watcher, "waiting-long", pid=waiter.info.backend_pid)
    assert waiting.suggestion.endswith(f"pglock-inspect kill {waiter.info.backend_pid} --cancel")
    assert answer(janitor, f"SELECT pg_cancel_backend({waiter.info.backend_pid})") is True
    assert finish(waiter) == "57014"
    assert not locks_of(watcher.poll(), waiter, granted=False)


def test_an_unlock_of_another_key_leaves_the_lock(connect: Connect, watch: Watch) -> None:
    migrator, watcher = connect(), watch(Job("schema:app"), Job("app"))
    migrator.execute("SELECT pg_advisory_lock(hashtext('schema:app'))")
    assert answer(migrator, "SELECT pg_advisory_unlock(hashtext('app'))") is False
    lock = lock_of(watcher.poll(), migrator)
    assert lock.name is not None
    assert lock.name.text == "schema:app"
    assert lock.findings == ()  # its last statement is about locks: nothing says that it is done


def test_a_driver_that_opens_a_transaction_makes_its_lock_session_look_forgetful(
    connect: Connect, watch: Watch
) -> None:
    worker = connect(autocommit=False)
    worker.execute(TAKE)
    finding = soon(watch(Job("nightly"), thresholds={"idle-in-transaction": 0.05}), "idle-in-transaction")
    assert (finding.severity, finding.pid) == ("warning", worker.info.backend_pid)


def test_a_later_statement_does_not_make_a_lock_younger(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch(Job("nightly"))
    asked = time.monotonic()
    worker.execute(TAKE)
    taken = time.monotonic()
    for _ in range(2):
        worker.execute("SELECT pg_sleep(0.1)")
        before = time.monotonic()
        held = held_of(watcher.poll(), worker)
        after = time.monotonic()
        assert held.at_least is not None
        assert held.at_most is not None
        assert held.at_least <= after - asked - 0.1  # by the state, which the statement changed
        assert held.at_most >= before - taken
    held = held_of(watcher.poll(), worker)
    assert held.evidence == "observed"
    assert held.seconds is not None
    assert held.seconds > 0.1


def test_locks_between_two_polls_are_not_seen_and_not_missed(connect: Connect, watch: Watch) -> None:
    worker = connect()
    watcher = watch(Job("nightly", every=0.01))
    for _ in range(20):
        assert watcher.poll().locks == ()
        worker.execute(TAKE)
        worker.execute("SELECT pg_advisory_unlock(hashtext('nightly'))")
    assert watcher.poll().findings == ()


def test_a_leader_is_watched_by_its_beats_alone(connect: Connect, watch: Watch) -> None:
    leader = connect()
    leader.execute(TAKE)
    watcher = watch(Job("nightly", long_lived=True, heartbeat=0.5), limits=SHORT)
    soon(watch(limits=SHORT), "stale", pid=leader.info.backend_pid)

    def is_well_after_a_beat() -> bool:
        leader.execute("SELECT 1")
        report = watcher.poll()
        assert lock_of(report, leader).max_held is None
        return report.findings == ()

    wait_until(is_well_after_a_beat, "a poll soon after a beat")
    assert soon(watcher, "no-heartbeat", job="nightly").severity == "critical"
    assert not found(watcher.poll(), "stale")


def test_locks_of_parallel_queries_are_the_leaders(connect: Connect, watch: Watch) -> None:
    leader, watcher = connect(), watch()
    leader.execute(TAKE)
    version = leader.info.server_version
    leader.execute(f"SET {'debug_parallel_query' if version >= 16_00_00 else 'force_parallel_mode'} = on")
    begin(leader, "SELECT pg_sleep(60) FROM pg_class")
    pid = leader.info.backend_pid
    workers = f"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker' /* {pid} */"
    other = connect()
    wait_until(lambda: answer(other, workers) == 1, "a worker works")
    assert [lock.pid for lock in watcher.poll().locks] == [pid]
    assert lock_of(watcher.poll(), leader).key == AdvisoryKey.from_bigint(_hash(other))


def _hash(connection: Connection) -> int:
    value = answer(connection, "SELECT hashtext('nightly')")
    assert isinstance(value, int)
    return value

"""`leaked`, `idle-in-transaction`, `prepared` and `no-heartbeat`: holders that do nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from psycopg import sql

from pglock_inspect.model import Job, Limits
from pglock_inspect.schemes import key_of
from tests.support.waiting import wait_until
from tests.support.watching import await_lock, begin, found, lock_of, locks_of, soon

if TYPE_CHECKING:
    from tests.support.servers import Connect, Connection
    from tests.support.watching import Watch

SHORT, LONG = Limits(max_held=0.05), Limits(max_held=3600)
NIGHTLY = key_of("nightly", "hashtext")
TAKE = "SELECT pg_advisory_lock(hashtext('nightly'))"


def test_a_lock_of_an_idle_session_that_went_on_is_leaked(connect: Connect, watch: Watch) -> None:
    worker = connect("api-pool")
    worker.execute(TAKE)
    worker.execute("/* GET */ SELECT 'secret'")
    pid = worker.info.backend_pid
    finding = soon(watch(Job("nightly", limits=LONG)), "leaked", pid=pid)
    assert finding.severity == "info"
    assert (finding.job, finding.database, finding.key) == ("nightly", "postgres", NIGHTLY)
    assert finding.summary.startswith(
        f"nightly may have been left behind: pid {pid} (postgres, api-pool) has"
    )
    assert "evidence: session_state" in finding.evidence
    assert finding.evidence.endswith("its last statement a SELECT")
    assert "secret" not in f"{finding.summary}{finding.evidence}{finding.suggestion}"
    assert "as often as it took it" in finding.suggestion
    assert finding.suggestion.endswith(f": pglock-inspect kill {pid} --terminate")
    soon(watch(Job("nightly", limits=SHORT)), "leaked", pid=pid, severity="warning")


def test_a_lock_that_nobody_configured_is_leaked_under_its_learned_name(
    connect: Connect, watch: Watch
) -> None:
    worker, watcher = connect(), watch()
    worker.execute(TAKE)
    await_lock(watcher, worker)
    worker.execute("COMMIT")
    assert soon(watcher, "leaked", pid=worker.info.backend_pid).job == "nightly"


@pytest.mark.parametrize(
    "then",
    [
        "SELECT pg_try_advisory_lock(4343)",  # it works with locks
        "SELECT 'nightly'",  # it is about the job
        "BEGIN",  # it is in a transaction, which may be the lock's
    ],
)
def test_a_lock_that_may_be_in_use_is_not_leaked(connect: Connect, watch: Watch, then: str) -> None:
    worker = connect()
    worker.execute(TAKE)
    worker.execute(then)
    report = watch(Job("nightly", limits=SHORT)).poll()
    assert NIGHTLY in {lock.key for lock in locks_of(report, worker)}
    assert not found(report, "leaked", pid=worker.info.backend_pid, key=NIGHTLY)


def test_a_leader_and_a_holder_that_beats_are_not_leaked(connect: Connect, watch: Watch) -> None:
    leader, beating, busy = connect(), connect(), connect()
    leader.execute("SELECT pg_advisory_lock(hashtext('leader'))")
    beating.execute(TAKE)
    for session in (leader, beating):
        session.execute("SELECT 1")
    busy.execute("SELECT pg_advisory_lock(hashtext('busy'))")
    begin(busy, "SELECT pg_sleep(60)")
    report = watch(Job("nightly", heartbeat=600), Job("leader", long_lived=True), Job("busy")).poll()
    assert {lock_of(report, session).key for session in (leader, beating, busy)}
    assert not found(report, "leaked")


def test_a_holder_idle_in_a_transaction_is_reported(connect: Connect, watch: Watch) -> None:
    worker = connect("billing", autocommit=False)
    worker.execute(TAKE)
    pid = worker.info.backend_pid
    finding = soon(
        watch(Job("nightly"), thresholds={"idle-in-transaction": 0.05}), "idle-in-transaction", pid=pid
    )
    assert finding.severity == "warning"
    assert (finding.job, finding.key) == ("nightly", NIGHTLY)
    assert finding.summary.startswith(
        f"nightly: pid {pid} (postgres, billing) has been idle in transaction for"
    )
    assert "in this state for" in finding.evidence
    assert finding.suggestion.startswith("have the application commit or roll back, or end it: ")
    assert finding.suggestion.endswith(f"pglock-inspect kill {pid} --terminate")


def test_a_rollback_is_not_said_to_release_the_lock_of_a_session(connect: Connect, watch: Watch) -> None:
    worker = connect(autocommit=False)
    worker.execute(TAKE)
    with pytest.raises(Exception, match="division by zero"):
        worker.execute("SELECT 1/0")
    watcher = watch(Job("nightly"), thresholds={"idle-in-transaction": 0.01})
    finding = soon(watcher, "idle-in-transaction", pid=worker.info.backend_pid)
    assert "idle in transaction (aborted)" in finding.summary
    assert "this lock is the session's and outlives a ROLLBACK" in finding.suggestion
    worker.rollback()
    await_lock(watcher, worker)  # it does


def test_a_rollback_to_a_savepoint_may_keep_the_lock(connect: Connect, watch: Watch) -> None:
    worker = connect(autocommit=False)
    worker.execute("SELECT pg_advisory_xact_lock(hashtext('nightly'))")
    worker.execute("SAVEPOINT here")
    with pytest.raises(Exception, match="division by zero"):
        worker.execute("SELECT 1/0")
    watcher = watch(Job("nightly"), thresholds={"idle-in-transaction": 0.01})
    finding = soon(watcher, "idle-in-transaction", pid=worker.info.backend_pid)
    assert finding.suggestion.startswith("have the application roll back, or end it")


def test_a_holder_idle_outside_of_a_transaction_or_not_for_long_is_not_reported(
    connect: Connect, watch: Watch
) -> None:
    idle, briefly, busy = connect(), connect(autocommit=False), connect()
    idle.execute(TAKE)
    briefly.execute("SELECT pg_advisory_lock(hashtext('briefly'))")
    busy.execute("SELECT pg_advisory_lock(hashtext('busy'))")
    begin(busy, "BEGIN; SELECT pg_sleep(60)")
    patient, strict = watch(), watch(thresholds={"idle-in-transaction": 1e-6})
    assert {lock_of(patient.poll(), session).granted for session in (idle, briefly, busy)} == {True}
    assert not found(patient.poll(), "idle-in-transaction")
    pids = {finding.pid for finding in found(strict.poll(), "idle-in-transaction")}
    assert pids == {briefly.info.backend_pid}


def prepare(connection: Connection, gid: str) -> None:
    connection.execute("BEGIN")
    connection.execute("SELECT pg_advisory_xact_lock(hashtext('nightly'))")
    connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(gid))
    connection.close()


def test_a_lock_of_a_prepared_transaction_is_reported_and_ended_as_suggested(
    connect: Connect, watch: Watch
) -> None:
    prepare(connect(), "payout's-17")
    watcher = watch(Job("nightly", limits=LONG), thresholds={"prepared": 0.05})
    finding = soon(watcher, "prepared", job="nightly")
    assert finding.severity == "warning"
    assert (finding.pid, finding.key, finding.database) == (None, NIGHTLY, "postgres")
    assert finding.summary.startswith('nightly is held by prepared transaction "payout\'s-17", prepared ')
    assert finding.evidence.endswith("(evidence: prepared); owner postgres, database postgres")
    patient = watch(Job("nightly", limits=SHORT), thresholds={"prepared": 0.05})
    assert soon(patient, "prepared", job="nightly").severity == "critical"
    assert soon(patient, "stale", job="nightly").suggestion == finding.suggestion
    connect().execute(finding.suggestion)
    report = watcher.poll()
    assert not [lock for lock in report.locks if lock.key == NIGHTLY]
    assert not found(report, "prepared")


def test_a_lock_prepared_a_moment_ago_is_not_reported(connect: Connect, watch: Watch) -> None:
    prepare(connect(), "payout-18")
    report = watch(Job("nightly")).poll()
    (lock,) = [lock for lock in report.locks if lock.key == NIGHTLY]
    assert lock.prepared is not None
    assert lock.prepared.gid == "payout-18"
    assert not found(report, "prepared")


def test_a_holder_without_a_beat_is_critical(connect: Connect, watch: Watch) -> None:
    worker = connect("leader-1")
    worker.execute(TAKE)
    pid = worker.info.backend_pid
    finding = soon(watch(Job("nightly", heartbeat=0.05, long_lived=True)), "no-heartbeat", pid=pid)
    assert finding.severity == "critical"
    assert (finding.job, finding.key) == ("nightly", NIGHTLY)
    assert finding.summary.startswith(f"nightly: pid {pid} (postgres, leader-1) has been silent for ")
    assert finding.summary.endswith(", a beat is due every 50 ms")
    assert finding.evidence.startswith("idle for ")
    assert finding.suggestion.endswith(f": pglock-inspect kill {pid} --terminate")


def test_a_holder_that_beats_or_owes_no_beat_is_not_reported(connect: Connect, watch: Watch) -> None:
    beating, other = connect(), connect()
    beating.execute(TAKE)
    other.execute("SELECT pg_advisory_lock(hashtext('other'))")
    watcher = watch(Job("nightly", heartbeat=0.2), Job("other"))
    soon(watcher, "no-heartbeat", job="nightly")

    def is_well_after_a_beat() -> bool:
        beating.execute("SELECT 1")
        report = watcher.poll()
        assert lock_of(report, beating).key == NIGHTLY
        assert lock_of(report, other).key == key_of("other", "hashtext")
        return not found(report, "no-heartbeat")

    wait_until(is_well_after_a_beat, "a poll soon after a beat")

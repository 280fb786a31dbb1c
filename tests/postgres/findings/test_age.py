"""`stale`, `could-be-stale` and `stamp-mismatch`: what is known of an age, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, Limits
from pglock_inspect.schemes import key_of
from tests.support.waiting import wait_until
from tests.support.watching import await_lock, begin, found, lock_of, locks_of, soon

if TYPE_CHECKING:
    from tests.support.servers import Connect
    from tests.support.watching import Watch

SHORT, LONG = Limits(max_held=0.05), Limits(max_held=3600)
TAKE = "SELECT pg_advisory_lock(hashtext('nightly'))"
# In ten minutes; nobody can have taken a lock then.
LATE_STAMP = "SELECT pg_try_advisory_lock_shared(4242, extract(epoch FROM clock_timestamp())::int + 600)"


def test_a_job_held_past_its_limit_is_stale(connect: Connect, watch: Watch) -> None:
    worker = connect("worker")
    worker.execute(TAKE)
    pid = worker.info.backend_pid
    finding = soon(watch(Job("nightly", limits=SHORT)), "stale", pid=pid)
    assert finding.severity == "critical"
    assert (finding.job, finding.database) == ("nightly", "postgres")
    assert finding.key == key_of("nightly", "hashtext")
    assert finding.summary.startswith(f"nightly is stale: pid {pid} (postgres, worker) has held it for ")
    assert finding.summary.endswith(", allowed are 50 ms")
    assert "at least" in finding.evidence
    assert finding.evidence.endswith("(evidence: session_state)")
    assert finding.suggestion == f"pglock-inspect kill {pid} --terminate"


def test_a_job_within_its_limit_or_held_for_life_is_not_stale(connect: Connect, watch: Watch) -> None:
    nightly, leader = connect(), connect()
    nightly.execute(TAKE)
    leader.execute("SELECT pg_advisory_lock(hashtext('leader'))")
    jobs = (Job("nightly", limits=LONG), Job("leader", limits=SHORT, long_lived=True))
    soon(watch(limits=SHORT), "stale", pid=leader.info.backend_pid)  # old enough, were it not for its job
    report = watch(*jobs).poll()
    assert lock_of(report, nightly).held is not None
    assert lock_of(report, leader).max_held is None
    assert not found(report, "stale")


def test_a_key_that_nobody_configured_is_stale_as_a_warning(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute("SELECT pg_advisory_lock(4242)")
    finding = soon(watch(limits=SHORT), "stale", pid=worker.info.backend_pid)
    assert finding.severity == "warning"
    assert finding.job is None
    assert finding.key == AdvisoryKey.from_bigint(4242)
    assert finding.summary.startswith("key 4242 is stale: ")


def test_what_was_only_observed_is_critical_after_many_polls(connect: Connect, watch: Watch) -> None:
    worker = connect()
    watcher = watch(Job("nightly", limits=SHORT), thresholds={"stale": 1000})
    begin(worker, f"{TAKE}, pg_sleep(60)")  # while it runs, a lock may be taken and released within it
    finding = soon(watcher, "stale", pid=worker.info.backend_pid)
    assert finding.severity == "warning"
    assert "seems to have held it" in finding.summary
    assert finding.evidence.endswith("(evidence: observed)")
    assert "at least" not in finding.evidence
    patient = watch(Job("nightly", limits=SHORT), thresholds={"stale": 3})
    for _ in range(3):
        patient.poll()
    assert soon(patient, "stale", pid=worker.info.backend_pid).severity == "critical"


def test_an_age_that_is_only_bounded_from_above_could_be_stale(connect: Connect, watch: Watch) -> None:
    worker = connect()
    begin(worker, f"{TAKE}, pg_sleep(60)")
    # In its first poll a watcher knows nothing but when the session began.
    job = Job("nightly", limits=SHORT)
    finding = wait_until(lambda: found(watch(job).poll(), "could-be-stale", job="nightly"), "the bound")[0]
    assert finding.severity == "info"
    assert finding.pid == worker.info.backend_pid
    assert finding.key == key_of("nightly", "hashtext")
    assert "nightly could be stale" in finding.summary
    assert "at most" in finding.evidence
    assert "pglock-inspect top" in finding.suggestion


def test_a_lock_that_is_stale_or_young_could_not_be_stale_as_well(connect: Connect, watch: Watch) -> None:
    stale, young, leader = connect(), connect(), connect()
    stale.execute(TAKE)
    begin(young, "SELECT pg_advisory_lock(hashtext('young')), pg_sleep(60)")
    begin(leader, "SELECT pg_advisory_lock(hashtext('leader')), pg_sleep(60)")
    jobs = (
        Job("nightly", limits=SHORT),
        Job("young", limits=LONG),
        Job("leader", limits=SHORT, long_lived=True),
    )
    watcher = watch(*jobs)
    for connection in (young, leader):
        await_lock(watcher, connection)
    soon(watcher, "stale", pid=stale.info.backend_pid)
    assert not found(watcher.poll(), "could-be-stale")


def test_a_stamp_that_contradicts_what_is_proven_does_not_count(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute("SELECT pg_advisory_lock(4242)")
    worker.execute(LATE_STAMP)
    watcher = watch()
    finding = soon(watcher, "stamp-mismatch", pid=worker.info.backend_pid)
    assert finding.severity == "info"
    assert finding.key is not None
    assert finding.key.classid == 4242
    assert finding.summary.endswith(" looks like a stamp but does not count: it names a second to come")
    assert finding.evidence == f"shared lock {finding.key} in database postgres"
    shown = {lock.key for lock in locks_of(watcher.poll(), worker)}
    assert shown == {AdvisoryKey.from_bigint(4242), finding.key}


def test_the_stamp_that_is_suggested_counts(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute("SELECT pg_advisory_lock(4242)")
    worker.execute(LATE_STAMP)
    watcher = watch()
    finding = soon(watcher, "stamp-mismatch", pid=worker.info.backend_pid)
    worker.execute(f"SELECT pg_advisory_unlock_shared({finding.key and finding.key.sql_arguments})")
    worker.execute(finding.suggestion[finding.suggestion.index("SELECT") :])
    report = watcher.poll()
    held = lock_of(report, worker).held
    assert held is not None
    assert held.evidence == "stamp"
    assert not found(report, "stamp-mismatch")


def test_two_shared_keys_that_look_like_no_time_are_no_stamp(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute("SELECT pg_advisory_lock_shared(7, 8)")
    report = watch().poll()
    assert lock_of(report, worker).key == AdvisoryKey.from_pair(7, 8)
    assert not found(report, "stamp-mismatch")

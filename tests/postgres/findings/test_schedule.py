"""`missed` and `never-seen`: jobs that should have run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job
from tests.support.waiting import wait_until
from tests.support.watching import await_lock, found, lock_of, soon

if TYPE_CHECKING:
    from tests.support.servers import Connect
    from tests.support.watching import Watch

EVERY = 0.2
LONG_RUNS = 60.0  # so long that no pause between two polls can hide a run
NIGHTLY = Job("nightly", every=EVERY, min_held=LONG_RUNS)
TAKE = "SELECT pg_advisory_lock(hashtext('nightly'))"
RELEASE = "SELECT pg_advisory_unlock(hashtext('nightly'))"


def test_a_job_that_does_not_come_again_is_missed(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch(NIGHTLY)
    worker.execute(TAKE)
    await_lock(watcher, worker)
    worker.execute(RELEASE)
    finding = soon(watcher, "missed", job="nightly")
    assert finding.severity == "critical"
    assert (finding.pid, finding.key) == (None, None)
    assert finding.summary.startswith("nightly has not been seen to run for ")
    assert finding.summary.endswith(", expected every 200 ms")
    assert finding.evidence.startswith("last seen held ")
    assert "; watched without a gap for " in finding.evidence
    assert finding.suggestion.endswith(": pglock-inspect key nightly")
    worker.execute(TAKE)
    assert not found(watcher.poll(), "missed")


def test_a_job_that_is_held_or_whose_runs_polls_may_not_see_is_not_missed(
    connect: Connect, watch: Watch
) -> None:
    held, short = connect(), connect()
    watcher = watch(NIGHTLY, Job("short", every=EVERY), Job("other", every=EVERY, min_held=LONG_RUNS))
    held.execute(TAKE)
    short.execute("SELECT pg_advisory_lock(hashtext('short'))")
    await_lock(watcher, short)
    short.execute("SELECT pg_advisory_unlock(hashtext('short'))")
    soon(watcher, "never-seen", job="other")  # watched for long enough
    report = watcher.poll()
    assert lock_of(report, held).findings == ()
    assert not found(report, "missed")


def test_a_gap_in_watching_starts_it_anew(connect: Connect, watch: Watch) -> None:
    worker = connect()
    watcher = watch(Job("nightly", every=EVERY, min_held=1e-6))  # no two polls are that close
    worker.execute(TAKE)
    await_lock(watcher, worker)
    worker.execute(RELEASE)
    later = watcher.poll().taken_at + EVERY * 1.5e6
    wait_until(lambda: watcher.poll().taken_at > later, "a poll after more than `every`")
    assert not found(watcher.poll(), "missed")


def test_a_job_that_never_came_is_reported_once_watched_for_long_enough(watch: Watch) -> None:
    watcher = watch(Job("send 'the' digest", every=EVERY, min_held=LONG_RUNS))
    assert not found(watcher.poll(), "never-seen")  # it may have run a moment ago
    finding = soon(watcher, "never-seen")
    assert finding.severity == "warning"
    assert (finding.job, finding.pid, finding.key) == ("send 'the' digest", None, None)
    assert finding.summary == "send 'the' digest was never seen to run, expected every 200 ms"
    assert finding.evidence.startswith("never held in ")
    assert finding.suggestion.endswith(""": pglock-inspect key 'send '"'"'the'"'"' digest'""")


def test_a_job_without_a_name_of_its_own_is_not_looked_up_by_name(watch: Watch) -> None:
    keyed = Job("keyed", key=AdvisoryKey.from_pair(42, -7), every=EVERY, min_held=LONG_RUNS)
    namespace = Job("tenants", first=7, every=EVERY, min_held=LONG_RUNS)
    watcher = watch(keyed, namespace)
    assert soon(watcher, "never-seen", job="keyed").suggestion.endswith(": pglock-inspect identify 42,-7")
    assert soon(watcher, "never-seen", job="tenants").suggestion.endswith(": pglock-inspect ls")


def test_a_job_that_was_seen_or_is_not_due_or_has_short_runs_is_not_never_seen(
    connect: Connect, watch: Watch
) -> None:
    worker = connect()
    jobs = (NIGHTLY, Job("yearly", every=3e7, min_held=LONG_RUNS), Job("short", every=EVERY))
    watcher = watch(*jobs)
    worker.execute(TAKE)
    await_lock(watcher, worker)
    worker.execute(RELEASE)
    soon(watcher, "missed", job="nightly")
    assert not found(watcher.poll(), "never-seen")

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.findings import judge
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, JobState, Limits, Lock, OtherWait, Report, Totals
from pglock_inspect.report import make_report
from tests.support.polls import (
    EXCLUSIVE,
    SHARE,
    at,
    lock_rows,
    prepared,
    scene,
    session,
    snapshot,
    waiting,
)

if TYPE_CHECKING:
    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import LockRows

NIGHTLY = Job("nightly", key=AdvisoryKey.from_bigint(7), limits=Limits(max_held=60))
HOURLY = Job("hourly", key=AdvisoryKey.from_bigint(8), limits=Limits(max_held=6000))
UNSEEN = Job("unseen", key=AdvisoryKey.from_bigint(9), database="app")


def reported(*snapshots: Any, **more: Any) -> Report:  # noqa: ANN401
    one: Scene = scene(*snapshots, **more)
    return make_report("db:5432", one, judge(one))


def locks_by(report: Report) -> dict[tuple[int | None, object], Lock]:
    return {(lock.pid, lock.key.value): lock for lock in report.locks}


def test_a_lock_says_all_that_is_known_of_it() -> None:
    worker = session(1, "idle", state_change=-90, query="SELECT pg_advisory_lock(7)")
    report = reported(snapshot(10, lock_rows(1, 7), sessions=[worker]), jobs=[NIGHTLY])
    (lock,) = report.locks
    assert (lock.key, lock.database, lock.mode) == (AdvisoryKey.from_bigint(7), "app", EXCLUSIVE)
    assert lock.name
    assert (lock.name.text, lock.name.source, lock.name.job) == ("nightly", "config", NIGHTLY)
    assert (lock.granted, lock.pid, lock.session, lock.prepared) == (True, 1, worker, None)
    assert lock.held
    assert (lock.held.seconds, lock.held.evidence) == (100, "session_state")
    assert (lock.waited_seconds, lock.max_held, lock.scope) == (None, 60, None)
    assert lock.findings == ("stale",)
    assert lock.severity == "critical"
    assert (report.target, report.taken_at, report.error) == ("db:5432", at(10), None)


def test_locks_are_made_once_and_only_when_they_are_asked_for() -> None:
    report = reported(snapshot(0, lock_rows(1, 7)))
    assert report.locks is report.locks


def test_of_many_locks_without_a_name_a_few_are_listed_and_those_that_somebody_waits_for() -> None:
    many = lock_rows(1, *range(100, 1100))
    named, waiters = lock_rows(2, 7), [waiting(3, 1099), waiting(4, 555), waiting(5, 7)]
    report = reported(snapshot(0, many, named, *waiters), jobs=[NIGHTLY])
    few = report.list_locks(10)
    of_many = {lock.key.value for lock in few if lock.pid == 1}
    assert {1099, 555} < of_many
    assert 10 < len(of_many) <= 12
    assert [lock.key.value for lock in few if lock.pid != 1] == [7, 1099, 555, 7]
    assert len(report.locks) == 1004


def test_locks_that_differ_in_their_key_alone_are_one_and_keep_the_keys_that_were_read() -> None:
    many, waiter = lock_rows(1, *range(100, 200)), waiting(3, 150)
    seen = scene(snapshot(0, many, lock_rows(2, *range(300, 400)), waiter))
    report = make_report("db:5432", seen, judge(seen))
    alike = {(one.lock.pid, one.lock.waiters): one for one in report.alike}
    assert set(alike) == {(1, 0), (1, 1), (2, 0), (3, 0)}
    assert alike[1, 0].keys == frozenset({*range(100, 200)} - {150})
    assert alike[1, 1].keys == {150}
    [untouched] = [group for group in seen.groups if group.rows.pid == 2]
    assert alike[2, 0].keys is untouched.subjects[0].keys
    assert {one.at(packed) for one in report.alike for packed in one.keys} == {*report.locks}


def test_locks_with_other_findings_are_not_alike() -> None:
    report = reported(snapshot(0, lock_rows(1, 7, 8, 9)), snapshot(70, lock_rows(1, 7, 8, 9)), jobs=[NIGHTLY])
    assert {(one.lock.findings, one.keys) for one in report.alike} == {
        (
            lock.findings,
            frozenset(other.key.packed for other in report.locks if other.findings == lock.findings),
        )
        for lock in report.locks
    }
    assert len(report.alike) > 1


def test_alike_are_told_too_where_locks_came_without() -> None:
    report = reported(snapshot(0, lock_rows(1, 7, 8), lock_rows(2, 7), waiting(3, 8)))
    recorded = replace(report, list_locks=lambda _: report.locks, list_alike=None)
    assert {(one.lock.pid, one.lock.waiters, one.keys) for one in recorded.alike} == {
        (one.lock.pid, one.lock.waiters, one.keys) for one in report.alike
    }


def test_all_locks_on_a_key() -> None:
    report = reported(snapshot(0, lock_rows(1, 7, 8), lock_rows(2, 9), waiting(3, 8)))
    here = report.locks_on("app", AdvisoryKey.from_bigint(8))
    assert [(lock.pid, lock.key.value, lock.granted) for lock in here] == [(1, 8, True), (3, 8, False)]
    assert report.locks_on("other", AdvisoryKey.from_bigint(8)) == []
    assert report.locks_on("app", AdvisoryKey.from_pair(0, 8)) == []


def test_a_job_held_for_life_has_no_limit() -> None:
    leader = Job("leader", key=AdvisoryKey.from_bigint(7), long_lived=True)
    (lock,) = reported(snapshot(0, lock_rows(1, 7)), jobs=[leader]).locks
    assert lock.max_held is None


def test_a_waiter_says_who_blocks_it_and_who_is_ahead() -> None:
    locks = locks_by(
        reported(
            snapshot(
                100,
                lock_rows(1, 7),
                waiting(2, 7, since=40),
                waiting(3, 7, since=70),
                blocking={2: (1,), 3: (1, 2)},
            )
        )
    )
    holder, second, third = (locks[pid, 7] for pid in (1, 2, 3))
    assert (holder.waiters, holder.blocked_by, holder.queued_behind) == (2, (), None)
    assert (second.waited_seconds, third.waited_seconds) == (60, 30)
    assert (second.blocked_by, second.queued_behind) == ((1,), ())
    assert (third.blocked_by, third.queued_behind) == ((1,), (2,))
    assert (third.held, third.waiters) == (None, 0)


def test_a_lone_waiter_is_not_known_to_be_behind_anybody() -> None:
    locks = locks_by(reported(snapshot(100, lock_rows(1, 7), waiting(2, 7))))
    assert (locks[2, 7].blocked_by, locks[2, 7].queued_behind) == ((1,), None)


def test_a_prepared_transaction_blocks_by_its_gid() -> None:
    report = reported(
        snapshot(
            100,
            lock_rows(None, 7, transaction="-1/8"),
            lock_rows(None, 8, transaction="-1/9"),
            waiting(2, 7),
            waiting(3, 8),
            prepared={"-1/8": prepared("it's left", 40)},
        )
    )
    waits = {lock.pid: lock.blocked_by for lock in report.locks if not lock.granted}
    assert waits == {2: ("it's left",), 3: ("-1/9",)}
    (held,) = [lock for lock in report.locks if lock.prepared]
    assert held.scope == "transaction"
    assert held.held
    assert (held.held.seconds, held.held.evidence) == (60, "prepared")


def test_a_session_blocks_once_though_it_holds_the_key_in_two_modes() -> None:
    locks = reported(
        snapshot(100, lock_rows(1, 7, mode=SHARE), lock_rows(1, 7, mode=EXCLUSIVE), waiting(2, 7))
    ).locks
    assert [lock.blocked_by for lock in locks if not lock.granted] == [(1,)]


def test_totals_are_by_database_and_leave_nothing_out() -> None:
    report = reported(
        snapshot(
            0,
            lock_rows(1, 7, 100, 101),
            lock_rows(2, 7, database=6),
            waiting(3, 7),
            waiting(4, 100),
        ),
        jobs=[NIGHTLY],
    )
    assert report.totals == {"app": Totals(3, 2, 3), "other": Totals(1, 0, 0)}


def test_a_job_is_counted_in_each_database_where_it_is_held_and_once_where_it_is_not() -> None:
    report = reported(
        snapshot(
            100,
            lock_rows(1, 7, mode=SHARE),
            lock_rows(2, 7, mode=SHARE),
            lock_rows(3, 7, database=6),
            waiting(4, 7, since=30),
            sessions=[session(1, state_change=90), session(2, state_change=20)],
        ),
        jobs=[NIGHTLY, UNSEEN],
    )
    assert report.jobs == (
        JobState(NIGHTLY, "app", held=2, waiters=1, stale=1, held_seconds=80, wait_seconds=70),
        JobState(NIGHTLY, "other", held=1),
        JobState(UNSEEN, "app"),
    )


def test_a_job_is_not_stale_because_another_one_of_its_session_is() -> None:
    """Both were first seen together, in one mode, and so are told together."""
    report = reported(
        snapshot(100, lock_rows(1, 7, 8), sessions=[session(1, state_change=0)]), jobs=[NIGHTLY, HOURLY]
    )
    assert {state.job.name: state.stale for state in report.jobs} == {"nightly": 1, "hourly": 0}
    assert {lock.key.value: "stale" in lock.findings for lock in report.locks} == {7: True, 8: False}


def test_a_lock_bears_its_findings_and_their_worst_severity() -> None:
    report = reported(
        snapshot(
            1000,
            lock_rows(1, 7, 100),
            sessions=[session(1, "idle in transaction", xact_start=0, state_change=0)],
        ),
        jobs=[NIGHTLY],
    )
    locks = locks_by(report)
    assert set(locks[1, 7].findings) == {"stale", "idle-in-transaction"}
    assert locks[1, 7].severity == "critical"
    assert set(locks[1, 100].findings) == {"idle-in-transaction", "unnamed"}
    assert locks[1, 100].severity == "warning"
    assert report.severity == "critical"


def test_the_chain_of_who_blocks_whom_is_told_with_what_each_waits_for() -> None:
    report = reported(
        snapshot(
            100,
            lock_rows(1, 7),
            waiting(2, 7, since=40),
            sessions=[session(1), session(2, "active"), session(3, "active")],
            other_waits=(OtherWait(1, "relation", "AccessShareLock", at(90)),),
            blocking={2: (1,), 1: (3,)},
        )
    )
    assert list(report.chain) == [1, 2, 3]
    assert (report.chain[2].waited_seconds, report.chain[2].blocked_by) == (60, (1,))
    assert (report.chain[1].waited_seconds, report.chain[1].blocked_by) == (10, (3,))
    assert (report.chain[3].waits_for, report.chain[3].blocked_by) == (None, ())
    assert report.chain[3].session
    assert report.chain[3].session.pid == 3


@pytest.mark.parametrize("number", [0, 1])
def test_nothing_held_is_a_report_too(number: int) -> None:
    report = reported(snapshot(0), jobs=[NIGHTLY][:number])
    assert (report.locks, report.findings, report.totals) == ((), (), {})
    assert [state.held for state in report.jobs] == [0] * number
    assert report.severity is None


HOLDS = st.lists(
    st.builds(
        lambda pid, keys, mode, database: lock_rows(pid, *keys, mode=mode, database=database),
        st.integers(1, 5),
        st.frozensets(st.integers(5, 12), min_size=1),
        st.sampled_from([EXCLUSIVE, SHARE]),
        st.sampled_from([5, 6]),
    ),
    unique_by=lambda rows: (rows.pid, rows.mode, rows.database),
)
WAITS = st.lists(st.builds(waiting, st.integers(1, 9), st.integers(5, 12)), unique_by=lambda rows: rows.pid)


@given(holds=HOLDS, waits=WAITS)
def test_every_lock_is_listed_once_and_counted_once(holds: list[LockRows], waits: list[LockRows]) -> None:
    report = reported(snapshot(10, *holds, *waits), jobs=[NIGHTLY, HOURLY, UNSEEN])
    listed = sorted(
        (lock.pid or 0, lock.database or "", lock.key, lock.mode, lock.granted) for lock in report.locks
    )
    expected = sorted(
        (rows.pid or 0, {5: "app", 6: "other"}[rows.database], rows.key(key), rows.mode, rows.granted)
        for rows in (*holds, *waits)
        for key in rows.keys
    )
    assert listed == expected
    for database in ("app", "other"):
        here = [lock for lock in report.locks if lock.database == database]
        total = report.totals.get(database, Totals())
        assert total.held == sum(lock.granted for lock in here)
        assert total.waiting == sum(not lock.granted for lock in here)
        assert total.unnamed == sum(lock.name is None for lock in here)
    for state in report.jobs:
        mine = [
            lock
            for lock in report.locks
            if lock.name and lock.name.job == state.job and lock.database == state.database
        ]
        assert state.held == sum(lock.granted for lock in mine)
        assert state.waiters == sum(not lock.granted for lock in mine)
        assert state.stale == sum("stale" in lock.findings for lock in mine if lock.granted)


def test_two_jobs_of_one_name_are_told_apart_by_their_databases() -> None:
    jobs = [replace(NIGHTLY, database=database) for database in ("app", "other")]
    report = reported(snapshot(0, lock_rows(1, 7), lock_rows(2, 7, database=6)), jobs=jobs)
    assert [(state.job.database, state.database, state.held) for state in report.jobs] == [
        ("app", "app", 1),
        ("other", "other", 1),
    ]

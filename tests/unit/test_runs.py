from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Instant, Job, Server
from pglock_inspect.runs import JobRuns, note_runs, run_key
from pglock_inspect.stamps import settle_stamps
from pglock_inspect.watch import pause
from tests.support.polls import SHARE, at, lock_rows, snapshot, waiting, watched
from tests.support.reports import NOW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.model import LockRows, Snapshot

JOB = Job("nightly", key=AdvisoryKey.from_bigint(7), every=3600, min_held=4)
RUNS = lock_rows(1, 7)


def noted(*polls: Snapshot, job: Job = JOB, runs: Mapping[str, JobRuns] | None = None) -> JobRuns:
    """What is known of a job's runs after these polls."""
    runs = runs or {}
    for number in range(1, len(polls) + 1):
        runs = note_runs(runs, settle_stamps(watched(*polls[:number], jobs=[job])), [job])
    return runs[run_key(job)]


def test_a_run_is_as_old_as_the_last_poll_that_saw_it() -> None:
    assert noted(snapshot(0), snapshot(2, RUNS), snapshot(4, RUNS), snapshot(6)) == JobRuns(
        watched_since=at(0), last_poll=at(6), last_held=at(4)
    )


def test_a_job_that_was_never_held_has_no_last_run() -> None:
    assert noted(snapshot(0), snapshot(2, lock_rows(1, 8))).last_held is None


@pytest.mark.parametrize(
    ("job", "rows"),
    [
        (JOB, waiting(1, 7)),
        (replace(JOB, key=AdvisoryKey.from_bigint(8)), RUNS),
        (replace(JOB, database="other"), RUNS),
    ],
)
def test_what_only_looks_like_a_run_is_none(job: Job, rows: LockRows) -> None:
    assert noted(snapshot(0, rows), job=job).last_held is None


def test_a_stamp_is_no_run_of_the_job_whose_namespace_it_falls_into() -> None:
    second = 946_684_800 + NOW // 1_000_000
    stamp = lock_rows(1, (7, second), mode=SHARE)
    namespace = Job("tenants", first=7)
    assert noted(snapshot(1, stamp), job=namespace).last_held == at(1)
    assert noted(snapshot(1, RUNS, stamp), job=namespace).last_held is None


@pytest.mark.parametrize(("interval", "unbroken"), [(2.0, True), (3.0, False)])
def test_polls_have_to_come_twice_within_the_shortest_run(interval: float, *, unbroken: bool) -> None:
    """However they are jittered."""
    late, early = pause(interval, 0, 1.0), pause(interval, 0, 0.0)
    times = [0.0, late, late + early, 2 * late + early]
    runs = noted(*map(snapshot, times))
    assert (runs.watched_since == at(0)) is unbroken


def test_a_job_whose_runs_may_be_of_any_length_is_not_watched_without_a_gap() -> None:
    job = replace(JOB, min_held=None)
    assert noted(snapshot(0), snapshot(0.1), job=job).watched_since == at(0.1)


def test_after_a_time_without_polls_watching_begins_anew() -> None:
    runs = noted(snapshot(0, RUNS), snapshot(2), snapshot(60), snapshot(62))
    assert (runs.watched_since, runs.last_held) == (at(60), at(0))


def test_watching_begins_anew_where_nothing_tells_how_long_nobody_watched() -> None:
    known = {JOB.name: JobRuns(watched_since=at(-9), last_poll=None, last_held=at(-5))}
    assert noted(snapshot(0), runs=known) == JobRuns(at(0), at(0), at(-5))


def test_watching_begins_anew_on_a_server_whose_clock_is_behind() -> None:
    other = Server("18.6", 18_00_06, "app", started_at=Instant(NOW - 5))
    runs = noted(snapshot(0, RUNS), snapshot(2), snapshot(-30, clock=4, server=other))
    assert (runs.watched_since, runs.last_held) == (at(-30), at(0))


@pytest.mark.parametrize("step", [3600, -3600])
def test_what_is_known_follows_a_step_of_the_clock(step: int) -> None:
    runs = noted(snapshot(0, RUNS), snapshot(2), snapshot(step + 4, clock=4))
    assert runs.last_poll == at(step + 4)
    assert runs.last_held is not None
    assert abs(runs.last_held - at(step)) < 10_000  # microseconds
    assert abs(runs.watched_since - at(step)) < 10_000


def tenths(least: int, most: int) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda tenths: tenths / 10)


@given(
    st.lists(
        st.tuples(
            st.one_of(tenths(1, 24), tenths(20, 60)),
            st.one_of(st.none(), st.tuples(tenths(1, 5), tenths(40, 43))),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_no_run_goes_unseen_while_watching(
    polls: list[tuple[float, tuple[float, float] | None]],
) -> None:
    """Between polls that far apart, runs begin so long after the poll, and take so long."""
    known: Mapping[str, JobRuns] = {}
    now = 0.0
    ran: list[tuple[float, float]] = []
    for gap, run in polls:
        if run and not any(now < end for _, end in ran):
            ran.append((now + run[0], now + sum(run)))
        now += gap
        held = any(start <= now < end for start, end in ran)
        history = watched(snapshot(now, *[RUNS] * held), jobs=[JOB])
        known = note_runs(known, history, [JOB])
        watched_since, last_held = known[JOB.name].watched_since, known[JOB.name].last_held
        for start, end in ran:
            if watched_since <= at(start) and end <= now:
                assert last_held is not None
                assert at(start) <= last_held


def test_a_run_in_one_database_is_none_in_another() -> None:
    here, there = (replace(JOB, database=database) for database in ("app", "other"))
    history = settle_stamps(watched(snapshot(0, RUNS), jobs=[here, there]))
    runs = note_runs({}, history, [here, there])
    assert [runs[run_key(job)].last_held for job in (here, there)] == [at(0), None]

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pglock_inspect.model import HoldGroup, Job, JobState, LockRows, Name, Sighting, Totals
from pglock_inspect.present.selection import Selection
from tests.support.reports import HOLDER, NOW, PREPARED, STALE, WAITER, make_report

ELSEWHERE = replace(HOLDER, database="other", pid=99, findings=(), waiters=0, name=None)
ROWS = LockRows(
    99,
    "5/1",
    1,
    1,
    "ExclusiveLock",
    granted=True,
    keys=frozenset({HOLDER.key.classid << 32 | HOLDER.key.objid}),
)
GROUP = HoldGroup(ROWS, ROWS.keys, (), Sighting(NOW, 0))

ABOUT_ELSEWHERE = replace(STALE, rule="unnamed", job=None, pid=None, key=None, about=((GROUP, ROWS.keys),))
ABOUT_THE_SERVER = replace(STALE, rule="no-pg-monitor", job=None, pid=None, key=None)
ABOUT_A_FREE_JOB = replace(STALE, rule="missed", job="backup", pid=None, key=None)

REPORT = replace(
    make_report(
        HOLDER,
        WAITER,
        PREPARED,
        ELSEWHERE,
        findings=(STALE, ABOUT_ELSEWHERE, ABOUT_THE_SERVER, ABOUT_A_FREE_JOB),
    ),
    jobs=(JobState(Job("send_daily_digest"), "app"), JobState(Job("backup"), None)),
)


@pytest.mark.parametrize(
    ("selection", "locks", "findings", "jobs"),
    [
        (
            Selection(jobs=frozenset({"send_daily_digest"})),
            (HOLDER, WAITER),
            (STALE, ABOUT_THE_SERVER),
            ["send_daily_digest"],
        ),
        (Selection(jobs=frozenset({"backup"})), (), (ABOUT_THE_SERVER, ABOUT_A_FREE_JOB), ["backup"]),
        (
            Selection(databases=frozenset({"other"})),
            (ELSEWHERE,),
            (ABOUT_ELSEWHERE, ABOUT_THE_SERVER),
            ["backup"],
        ),
        (Selection(stale=True), (HOLDER,), (STALE, ABOUT_THE_SERVER), ["send_daily_digest", "backup"]),
        (
            Selection(waiting=True),
            (HOLDER, WAITER),
            (STALE, ABOUT_THE_SERVER),
            ["send_daily_digest", "backup"],
        ),
    ],
)
def test_locks_go_with_what_was_found_about_them(
    selection: Selection, locks: object, findings: object, jobs: list[str]
) -> None:
    selected = selection.of(REPORT)
    assert selected.locks == locks
    assert selected.findings == findings
    assert [state.job.name for state in selected.jobs] == jobs


def test_a_job_that_is_a_pattern_selects_the_names_that_fit_it() -> None:
    name = Name("tenant:7", "query", scheme="hashtext", job=Job("tenants", match="tenant:*"))
    report = make_report(replace(HOLDER, name=name), ELSEWHERE)
    for selected in ("tenants", "tenant:7"):
        assert [lock.name for lock in Selection(jobs=frozenset({selected})).of(report).locks] == [name]
    assert Selection(jobs=frozenset({"tenant:8"})).of(report).locks == ()


def test_what_is_left_is_counted_anew() -> None:
    assert Selection(databases=frozenset({"app"})).of(REPORT).totals == {"app": Totals(2, 1, 1)}


def test_no_selection_is_the_whole_report() -> None:
    assert Selection().of(REPORT) is REPORT

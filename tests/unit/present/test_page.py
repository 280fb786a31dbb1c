"""What the page says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Finding, Job, JobState, Limits, Name, Report, Severity, Totals
from pglock_inspect.present.page.view import page_of
from tests.support.reports import (
    HOLDER,
    NOW,
    PREPARED,
    SERVER,
    STALE,
    UNREACHABLE,
    WAITER,
    ago,
    make_report,
)

if TYPE_CHECKING:
    from pglock_inspect.present.page.rows import FindingRow, JobRow, Mark
    from pglock_inspect.present.page.view import Page

DIGEST = Job("send_daily_digest", limits=Limits(max_held=600))
BACKUP = Job("backup", every=86_400, limits=Limits(max_held=7_200))
NAME = Name("send_daily_digest", "config", job=DIGEST)
HELD = replace(HOLDER, name=NAME)
WAITS = replace(WAITER, name=NAME)
RUNNING = JobState(DIGEST, "app", held=1, waiters=1, stale=1, held_seconds=2_520, wait_seconds=720)
FREE = JobState(BACKUP, "app", last_held=ago(3_600))
DOWN = replace(UNREACHABLE, failing_since=ago(754))


def found(severity: Severity, rule: str = "leaked", **fields: object) -> Finding:
    return replace(STALE, rule=rule, severity=severity, **fields)


def page(*reports: Report, age: float = 1.0, queries: bool = True, of: int | None = None) -> Page:
    return page_of(
        reports, [age] * len(reports), queries=queries, interval=2.0, of=len(reports) if of is None else of
    )


def job(state: JobState, *findings: Finding, held: bool = False) -> JobRow:
    locks = [HELD, WAITS] if held else []
    report = replace(make_report(*locks, findings=findings), jobs=(state,))
    (row,) = page(report).targets[0].jobs.rows
    return row


def finding(suggestion: str, *, of: int = 1) -> FindingRow:
    (row,) = (
        page(make_report(findings=(found("info", suggestion=suggestion),)), of=of).targets[0].findings.rows
    )
    return row


def commands(suggestion: str, *, of: int = 1) -> list[str]:
    return [step.text for step in finding(suggestion, of=of).steps if step.is_command]


def said(mark: Mark) -> tuple[str, str]:
    return mark.word, mark.meaning


# --- The whole ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reports", "word", "meaning"),
    [
        ([make_report()], "all is well", "good"),
        ([make_report(findings=(found("info"),))], "all is well", "good"),
        ([make_report(findings=(found("warning"), found("info")))], "1 warning", "warning"),
        ([make_report(findings=(STALE, *[found("warning")] * 2))], "1 critical, 2 warnings", "critical"),
        ([DOWN], "cannot be read", "critical"),
        ([DOWN, make_report(), DOWN], "2 cannot be read", "critical"),
        ([DOWN, make_report(findings=(STALE,))], "1 cannot be read, 1 critical", "critical"),
        ([UNREACHABLE], "not read yet", "quiet"),
        ([UNREACHABLE, make_report(findings=(found("warning"),))], "1 warning, 1 not read yet", "warning"),
        ([], "all is well", "good"),
    ],
)  # fmt: skip
def test_the_headline_says_the_worst_first(reports: list[Report], word: str, meaning: str) -> None:
    whole = page(*reports)
    assert said(whole.mark) == (word, meaning)
    assert whole.title.startswith(f"{whole.mark.sign} {word} · ")


def test_the_title_of_one_server_names_it() -> None:
    assert page(make_report(findings=(STALE,))).title == "✗ 1 critical · localhost:5432 · pglock-inspect"


def test_servers_stand_by_urgency_and_else_as_they_are_configured() -> None:
    def named(name: str, *findings: Finding) -> Report:
        return replace(make_report(findings=findings), target=name)

    whole = page(
        named("calm"),
        named("told", found("info")),
        named("warned", found("warning")),
        replace(UNREACHABLE, target="new"),
        named("stale", found("warning"), STALE),
        replace(DOWN, target="down"),
        named("late"),
    )
    assert [target.name for target in whole.targets] == [
        *("down", "stale", "warned", "new", "calm", "told", "late")
    ]


def test_it_comes_again_as_often_as_there_is_something_new() -> None:
    for interval, refresh in ((0.1, 1.0), (5.0, 5.0), (3600.0, 30.0)):
        assert page_of([], [], queries=False, interval=interval, of=0).refresh == refresh


# --- A server -----------------------------------------------------------------------------------------


def test_a_server_that_cannot_be_read_says_why_and_since_when() -> None:
    (target,) = page(DOWN).targets
    assert said(target.mark) == ("cannot be read", "critical")
    assert target.error == UNREACHABLE.error
    assert (target.since, target.away) == ("2026-11-30 01:47:26 UTC", "12 min")
    assert (target.jobs.rows, target.locks.rows, target.totals) == ((), (), ())


def test_what_is_read_says_from_when_it_is() -> None:
    (target,) = page(make_report(), age=3.4).targets
    assert (target.read_at, target.age, target.old) == ("2026-11-30 02:00:00 UTC", "3 s ago", False)
    assert target.read_at_iso == "2026-11-30T02:00:00Z"
    assert page(make_report(), age=0.3).targets[0].age == "now"


def test_a_server_that_is_silent_is_not_called_healthy() -> None:
    (target,) = page(make_report(), age=90).targets
    assert (target.old, said(target.mark)) == (True, ("silent", "warning"))
    assert page(make_report(), age=90).mark.word == "silent"
    assert page(make_report(findings=(STALE,)), age=90).mark.word == "1 critical"
    assert not page(make_report(), age=7).targets[0].old


def test_a_server_says_what_it_is_and_how_many_locks_it_has() -> None:
    server = replace(SERVER, in_recovery=True, privileged=False, pooler=True)
    report = replace(make_report(), server=server, totals={"app": Totals(1_200, 3, 7)}, lock_table_rows=3_520)
    (target,) = page(report).targets
    assert target.about == (
        *("PostgreSQL 18.6", "standby", "database app", "behind a pooler", "without pg_monitor"),
    )
    assert target.totals == ("1,200 held", "3 waiting", "7 without a name", "lock table 50% full")


def test_the_gist_is_the_worst_finding_or_how_much_goes_on() -> None:
    report = replace(make_report(HELD, WAITS, findings=(found("info"), STALE)), jobs=(RUNNING, FREE))
    assert page(report).targets[0].gist == STALE.summary
    calm = replace(report, findings=(found("info"),))
    assert page(calm).targets[0].gist == "1 of 2 jobs running, 1 lock held"


# --- Jobs ---------------------------------------------------------------------------------------------


def test_a_stale_job_shows_its_age_against_its_limit_and_who_waits() -> None:
    row = job(RUNNING, STALE, held=True)
    assert said(row.mark) == ("stale", "critical")
    assert (row.held, row.limit) == ("≥ 42 min", "10 min")
    assert row.bar
    assert (row.bar.age, row.bar.limit, row.bar.meaning) == (2_520, 600, "critical")
    assert row.bar.text == "4.2 times its limit"
    assert (row.waiters, row.waited, row.last_held) == (1, "12 min", "now")
    assert row.rules == ()  # it is called so already


def test_a_running_job_is_below_its_limit() -> None:
    young = replace(RUNNING, stale=0, held_seconds=150, waiters=0, wait_seconds=None)
    row = job(young)
    assert said(row.mark) == ("running", "good")
    assert (row.held, row.waiters) == ("2 min 30 s", 0)
    assert row.bar
    assert (row.bar.meaning, row.bar.text) == ("good", "25% of its limit")
    assert job(replace(young, held_seconds=None)).held == "?"
    assert job(replace(young, held_seconds=None)).bar is None
    assert said(job(replace(young, held=3)).mark) == ("running × 3", "good")  # noqa: RUF001


def test_what_is_found_about_a_running_job_shows_but_an_information_does_not_alarm() -> None:
    row = job(replace(RUNNING, stale=0), found("warning"), found("info", "unnamed"))
    assert (said(row.mark), row.rules) == (("running", "warning"), ("leaked", "unnamed"))
    assert said(job(replace(RUNNING, stale=0), found("info")).mark) == ("running", "good")


def test_a_free_job_says_when_it_was_last_held() -> None:
    row = job(FREE)
    assert said(row.mark) == ("free", "quiet")
    assert (row.held, row.bar, row.last_held, row.every) == (None, None, "1 h ago", "1 d")
    assert row.last_held_at == "2026-11-30 01:00:00 UTC"
    assert row.due
    assert (row.due.age, row.due.limit, row.due.meaning) == (3_600, 86_400, "good")
    assert job(replace(FREE, last_held=None)).last_held == "not seen yet"


def test_a_missed_job() -> None:
    missed = found("critical", "missed", job="backup", database=None, key=None, pid=None)
    row = job(replace(FREE, last_held=ago(90_000)), missed)
    assert (said(row.mark), row.last_held) == (("missed", "critical"), "1 d 1 h ago")
    assert row.due
    assert row.due.meaning == "critical"
    never = replace(missed, rule="never-seen", severity="warning")
    assert said(job(replace(FREE, last_held=None), never).mark) == ("never seen", "warning")


def test_a_job_that_nobody_holds_yet_somebody_waits_for() -> None:
    assert said(job(replace(FREE, waiters=2)).mark) == ("waited for", "info")


def test_a_job_held_for_life_has_no_limit() -> None:
    row = job(replace(RUNNING, stale=0, job=replace(DIGEST, long_lived=True)))
    assert (row.limit, row.bar) == (None, None)


def test_findings_of_another_database_are_not_about_this_one() -> None:
    other = replace(RUNNING, stale=0, database="other")
    assert said(job(other, STALE).mark) == ("running", "good")


def test_a_job_with_a_pattern_has_the_severity_of_its_locks() -> None:
    tenants = Job("tenant:*", match="tenant:*")
    lock = replace(HELD, name=Name("tenant:7", "query", job=tenants))
    report = replace(
        make_report(lock, findings=(replace(STALE, job="tenant:7"),)),
        jobs=(FREE, replace(RUNNING, job=tenants)),
    )
    first, second = page(report).targets[0].jobs.rows
    assert (first.name, said(first.mark)) == ("tenant:*", ("stale", "critical"))
    assert second.name == "backup"


def test_databases_are_told_apart_only_where_there_are_several() -> None:
    two = replace(make_report(), jobs=(RUNNING, replace(RUNNING, database="other")))
    (target,) = page(two).targets
    assert {row.database for row in target.jobs.rows} == {"app", "other"}
    assert "database app" not in target.about
    assert job(RUNNING).database is None


# --- Locks --------------------------------------------------------------------------------------------


def test_locks_say_who_holds_and_who_waits_for_whom() -> None:
    report = make_report(WAITS, PREPARED, HELD)
    held, waits, prepared = page(report).targets[0].locks.rows
    assert said(held.mark) == ("held", "critical")
    assert (held.name, held.key, held.age, held.limit) == (
        *("send_daily_digest", "-1957215242", "≥ 42 min", "10 min"),
    )
    assert (held.process, held.who) == ("pid 4711", ("worker-3", "app", "10.0.0.7:51234"))
    assert (held.session, held.query) == (("idle", "Client/ClientRead"), "COMMIT")
    assert said(waits.mark) == ("waiting", "info")
    assert (waits.age, waits.blocked_by, waits.bar, waits.limit) == ("12 min", "4711", None, None)
    assert (said(prepared.mark), prepared.name, prepared.key) == (("prepared", "good"), "7,-42", None)
    assert (prepared.process, prepared.who, prepared.age) == (
        *("prepared 'transfer-17'", ("billing",), "≥ 5 min"),
    )


def test_queries_are_shown_only_where_they_may_be() -> None:
    shown = page(make_report(HELD), queries=False).targets[0].locks.rows[0]
    assert shown.query is None


# --- Findings -----------------------------------------------------------------------------------------


def test_what_to_do_has_its_commands_apart() -> None:
    row = finding("see what is in the way: pglock-inspect why 17, or end it: pglock-inspect kill 17 --cancel")
    assert [tuple(step) for step in row.steps] == [
        ("see what is in the way: ", False),
        ("pglock-inspect why 17", True),
        (", or end it: ", False),
        ("pglock-inspect kill 17 --cancel", True),
    ]


@pytest.mark.parametrize(
    ("suggestion", "expected"),
    [
        ("pglock-inspect kill 4711 --terminate", ["pglock-inspect kill 4711 --terminate"]),
        ("see it: pglock-inspect why 7,-42, then think", ["pglock-inspect why 7,-42"]),
        ("look: pglock-inspect doctor; behind one, do not", ["pglock-inspect doctor"]),
        ("look: pglock-inspect key 'a; b, c: d'", ["pglock-inspect key 'a; b, c: d'"]),
        ("GRANT pg_monitor TO app", ["GRANT pg_monitor TO app"]),
        ("ROLLBACK PREPARED 'x'  -- in database app", ["ROLLBACK PREPARED 'x'  -- in database app"]),
        ("run: SELECT pid, count(*) FROM pg_locks; or not", ["SELECT pid, count(*) FROM pg_locks; or not"]),
        ("chronyc tracking, or timedatectl", []),
        ("ask whoever runs it", []),
    ],
)
def test_commands_are_recognised_whole(suggestion: str, expected: list[str]) -> None:
    assert commands(suggestion) == expected
    assert "".join(step.text for step in finding(suggestion).steps) == suggestion


def test_among_several_servers_a_command_names_its_own() -> None:
    kill = "end it: pglock-inspect kill 17 --terminate"
    assert commands(kill, of=3) == ["pglock-inspect kill 17 --terminate --target localhost:5432"]
    assert commands("GRANT pg_monitor TO app", of=3) == ["GRANT pg_monitor TO app"]


# --- Much of it ---------------------------------------------------------------------------------------


def test_many_locks_are_cut_and_counted() -> None:
    locks = [replace(HELD, key=AdvisoryKey.from_bigint(n), name=None, severity=None) for n in range(300)]
    report = replace(make_report(WAITS, HELD, *locks), totals={"app": Totals(100_000, 1)})
    (target,) = page(report).targets
    assert len(target.locks.rows) == 200
    assert [row.name for row in target.locks.rows[:2]] == ["send_daily_digest"] * 2
    assert target.locks.more == "and 99,801 more, which pglock-inspect ls lists"


def test_many_targets_share_the_room_and_show_what_is_worst() -> None:
    free = [replace(FREE, job=Job(f"job-{n}")) for n in range(500)]
    findings = [found("info", job=None)] * 40 + [STALE]
    report = replace(make_report(HELD, findings=tuple(findings)), jobs=(*free, RUNNING))
    whole = page(*[replace(report, target=f"db-{n}") for n in range(200)])
    assert len(whole.targets) == 200
    for target in whole.targets:
        assert (len(target.jobs.rows), target.jobs.rows[0].name) == (12, "send_daily_digest")
        assert target.jobs.more == "and 489 more: 489 free"
        assert (len(target.findings.rows), target.findings.rows[0].rule) == (8, "stale")
        assert target.findings.more == "and 33 more: 33 info"


def test_ids_stay_and_are_never_given_twice() -> None:
    report = replace(make_report(HELD, HELD, WAITS, findings=(STALE, STALE)), jobs=(RUNNING, RUNNING))

    def ids(whole: Page) -> list[str]:
        return [
            identity
            for target in whole.targets
            for identity in (
                target.id,
                *(row.id for row in target.jobs.rows),
                *(row.id for row in target.findings.rows),
                *(row.id for row in target.locks.rows),
            )
        ]

    first = ids(page(report, report))
    assert len(set(first)) == len(first)
    later = replace(report, taken_at=NOW + 5_000_000)
    assert ids(page(later, later)) == first

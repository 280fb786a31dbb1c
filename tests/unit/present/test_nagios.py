from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.model import Job, JobState, Limits, Report
from pglock_inspect.present import nagios
from pglock_inspect.present.verdict import Status, judge, worst
from tests.support.any_reports import failures, reports
from tests.support.reports import HOLDER, STALE, UNREACHABLE, WAITER, make_report

DIGEST = Job("send_daily_digest", limits=Limits(max_held=600.0, max_wait=60.0))
DATUM = re.compile(r"'(?:[^'=|]|'')*'=(?:\d+(?:\.\d+)?s?|U);(?:\d+(?:\.\d+)?)?;(?:\d+(?:\.\d+)?)?;0")


def shown(*reports: Report) -> str:
    return nagios.judged([judge(report) for report in reports])


def test_a_finding_is_named_with_what_to_do_and_measured() -> None:
    state = JobState(DIGEST, "app", held=1, waiters=1, stale=1, held_seconds=2_520.0, wait_seconds=720.0)
    report = replace(make_report(HOLDER, WAITER, findings=(STALE,)), jobs=(state,))
    line, to_do = shown(report).splitlines()
    assert line == (
        "PGLOCK CRITICAL - send_daily_digest is stale: pid 4711 (app, worker-3) has held it for 42 min,"
        " allowed are 10 min | 'held'=1;;;0 'waiting'=1;;;0 'critical'=1;;;0 'warning'=0;;;0"
        " 'send_daily_digest held'=2520.000s;;600;0 'send_daily_digest waited'=720.000s;60;;0"
        " 'send_daily_digest waiters'=1;;;0"
    )
    assert to_do == "  do: pglock-inspect kill 4711 --terminate"


def test_zeros_are_measured_too_and_the_unknown_is_not_a_zero() -> None:
    free = JobState(DIGEST, None)
    assert "'send_daily_digest held'=0s;;600;0 'send_daily_digest waited'=0s;60;;0" in shown(
        replace(make_report(), jobs=(free,))
    )
    unknown = replace(free, database="app", held=1)
    assert "'send_daily_digest held'=U;;600;0" in shown(replace(make_report(), jobs=(unknown,)))


def test_limits_are_plain_numbers_and_what_is_held_for_life_has_none() -> None:
    monthly = JobState(Job("monthly", limits=Limits(max_held=30.5 * 86_400 + 0.25, max_wait=0.5)), "app")
    leader = JobState(Job("leader", long_lived=True), "app")
    text = shown(replace(make_report(), jobs=(monthly, leader)))
    assert "'monthly held'=0s;;2635200.25;0 'monthly waited'=0s;0.5;;0" in text
    assert "'leader held'=0s;;;0 'leader waited'=0s;60;;0" in text


def test_labels_do_not_change_with_where_a_job_is_held() -> None:
    states = (
        JobState(DIGEST, "one", held=1, held_seconds=5.0),
        JobState(DIGEST, "two", held=1, held_seconds=7.0, waiters=2),
    )
    text = shown(replace(make_report(), jobs=states))
    assert "'send_daily_digest held'=7.000s;;600;0 'send_daily_digest waited'=U;60;;0" in text
    assert text.count("'send_daily_digest waiters'=2;;;0") == 1


def test_more_findings_follow_line_by_line() -> None:
    warning = replace(STALE, severity="warning", summary="other is late", suggestion="look")
    note = replace(STALE, severity="info", summary="not all is readable", key=None)
    about_a_lock = replace(STALE, severity="info", summary="unnamed")
    lines = shown(make_report(HOLDER, findings=(STALE, warning, note, about_a_lock))).splitlines()
    assert "allowed are 10 min (and 1 more) |" in lines[0]
    assert lines[1:] == [
        "  do: pglock-inspect kill 4711 --terminate",
        "WARNING - other is late",
        "  do: look",
        "INFO - not all is readable",
    ]


def test_nothing_to_tell() -> None:
    assert shown(make_report(HOLDER)).startswith("PGLOCK OK - 1 held, 0 waiting | 'held'=1;;;0")


def test_several_targets_share_the_line() -> None:
    lines = shown(make_report(HOLDER), UNREACHABLE).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(
        "PGLOCK UNKNOWN - localhost:5432: 1 held, 0 waiting; db.example.org:5432: cannot"
    )
    assert "| 'localhost:5432 held'=1;;;0" in lines[0]


@given(st.one_of(reports(), failures()))
def test_any_report_is_inert_and_its_data_can_be_parsed(report: Report) -> None:
    lines = shown(report).split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any("|" in line for line in lines[1:])
    _, separator, data = lines[0].partition(" | ")
    assert "|" not in data
    assert bool(separator) == (report.server is not None)
    if data:
        assert re.fullmatch(rf"{DATUM.pattern}( {DATUM.pattern})*", data)


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        ("connect", Status.UNKNOWN),
        ("auth", Status.UNKNOWN),
        ("timeout", Status.UNKNOWN),
        ("other", Status.UNKNOWN),
        ("login_hangs", Status.CRITICAL),
        ("lock_table_full", Status.CRITICAL),
        ("too_many_connections", Status.CRITICAL),
    ],
)
def test_a_server_that_refuses_everybody_is_critical(failure: str, status: Status) -> None:
    assert judge(replace(UNREACHABLE, failure=failure)).status is status


def test_only_findings_about_the_asked_jobs_count() -> None:
    other = replace(STALE, job="other", severity="warning")
    report = make_report(HOLDER, findings=(STALE, other))
    assert judge(report).status is Status.CRITICAL
    assert judge(report, {"other"}).status is Status.WARNING
    assert judge(report, {"third"}).status is Status.OK
    assert judge(make_report(findings=(replace(STALE, severity="info"),))).status is Status.OK


def test_what_is_wrong_goes_before_what_is_not_known() -> None:
    assert worst([Status.OK, Status.UNKNOWN, Status.WARNING]) is Status.WARNING
    assert worst([Status.UNKNOWN, Status.CRITICAL]) is Status.CRITICAL
    assert worst([]) is Status.OK

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Name
from pglock_inspect.present import csv as csv_format
from pglock_inspect.present.paper import Paper
from tests.support.any_reports import reports
from tests.support.reports import HOLDER, PREPARED, SESSION, UNREACHABLE, WAITER, make_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.model import Report

# What holds text that came from outside.
TEXT_COLUMNS = (
    *("target", "job", "database", "product", "prepared_gid", "prepared_owner", "user", "application_name"),
    *("client", "query", "blocked_by"),
)


def rows(*reports: Report) -> list[dict[str, str]]:
    return [*csv.DictReader(csv_format.once(reports, Paper()).splitlines())]


def test_a_row_per_lock() -> None:
    holder, waiter, prepared = rows(make_report(HOLDER, WAITER, PREPARED), UNREACHABLE)
    assert holder["target"] == "localhost:5432"
    assert holder["taken_at"] == "2026-11-30T02:00:00.123456Z"
    assert (holder["job"], holder["value"], holder["classid"]) == (
        "send_daily_digest",
        "-1957215242",
        "4294967295",
    )
    assert (holder["held_seconds"], holder["at_most"], holder["evidence"]) == (
        "2520.0",
        "10920.0",
        "session_state",
    )
    assert holder["backend_start"] == "2026-11-29T22:58:00.123456Z"
    assert (waiter["granted"], waiter["held_seconds"], waiter["waited_seconds"]) == ("false", "", "720.0")
    assert waiter["blocked_by"] == "4711"
    assert (prepared["value"], prepared["prepared_gid"], prepared["pid"]) == ("7,-42", "transfer-17", "")


def test_without_locks_there_is_a_heading_only() -> None:
    assert csv_format.once([make_report()], Paper()).startswith("target,taken_at,job,")
    assert rows(make_report()) == []


def test_while_watching_the_heading_comes_once() -> None:
    heading, first, second = csv_format.stream(
        [[make_report(HOLDER)], [], [make_report(HOLDER, WAITER)]], Paper()
    )
    assert heading.startswith("target,")
    assert [len(chunk.splitlines()) for chunk in (first, second)] == [1, 2]


@pytest.mark.parametrize(
    "formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1", "  =1", "\t=1", "=cmd|' /C calc'!A0"]
)
def test_no_text_is_run_as_a_formula(formula: str) -> None:
    lock = replace(HOLDER, session=replace(SESSION, query=formula), name=Name(formula, "config"))
    (row,) = rows(make_report(lock))
    assert not row["query"].lstrip().startswith(("=", "+", "-", "@", "\uff1d"))
    assert not row["job"].lstrip().startswith(("=", "+", "-", "@", "\uff1d"))


def test_keys_stay_numbers() -> None:
    (row,) = rows(make_report(replace(HOLDER, key=AdvisoryKey.from_pair(-5, 3))))
    assert row["value"] == "-5,3"


@given(reports())
def test_any_report_is_one_line_per_lock_and_inert(report: Report) -> None:
    text = csv_format.once([report], Paper())
    lines: Sequence[str] = text.split("\n")
    assert len(lines) == 1 + len(report.locks)
    assert all(line.isprintable() for line in lines)
    for row in csv.DictReader(lines):
        for column in TEXT_COLUMNS:
            assert not row[column].lstrip().startswith(("=", "+", "-", "@"))

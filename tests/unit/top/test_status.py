from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.present.spans import width_of
from pglock_inspect.top.feed import Feed
from pglock_inspect.top.showing import Showing
from pglock_inspect.top.status import banner, counts_line, hints_line, sparkline, tabs_line, title_line
from pglock_inspect.top.view import Sight
from tests.support.any_reports import reports
from tests.support.reports import HOLDER, PREPARED, SERVER, STALE, UNREACHABLE, WAITER, make_report

if TYPE_CHECKING:
    from pglock_inspect.model import Report

LOOK = Look()
REPORT = make_report(HOLDER, WAITER, PREPARED, findings=(STALE, replace(STALE, severity="warning")))


def fed(*came: Report) -> Feed:
    feed = Feed("db.example.org:5432", now=0.0)
    for report in came:
        feed.receive(Sight(report), 0.0)
    return feed


def title(feed: Feed, cells: int = 100, now: float = 1.0) -> str:
    return "".join(text for text, _ in title_line([feed], cells, LOOK, interval=2.0, now=now))


def test_the_title_names_the_server_and_its_state() -> None:
    assert title(fed(REPORT)) == (
        "pglock-inspect  localhost:5432  PostgreSQL 18.6  primary        connected  read in 2.1 ms  every 2 s"
    )


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (80, "pglock-inspect  localhost:5432  PostgreSQL 18.6  primary    connected  every 2 s"),
        (70, "localhost:5432  PostgreSQL 18.6  primary          connected  every 2 s"),
        (60, "localhost:5432  PostgreSQL 18.6  primary           connected"),
        (40, "localhost:5432  primary        connected"),
        (20, "localhost:5432      "),
        (10, "localhost…"),
    ],
)
def test_the_title_loses_what_matters_least(cells: int, shown: str) -> None:
    assert title(fed(REPORT), cells) == shown


def test_the_title_tells_a_standby_a_pooler_and_a_limited_role() -> None:
    server = replace(SERVER, in_recovery=True, pooler=True, privileged=False)
    assert "standby  behind a pooler  without pg_monitor" in title(fed(replace(REPORT, server=server)), 160)


def test_the_title_before_the_first_report() -> None:
    assert title(fed(), 50).split() == ["db.example.org:5432", "connecting", "every", "2", "s"]


def test_the_counts() -> None:
    line = "".join(text for text, _ in counts_line([fed(REPORT)], 60, LOOK))
    assert line == "✗ 1 critical  ▲ 1 warning  • 0 info        2 held  1 waiting"
    assert counts_line([fed(REPORT)], 60, LOOK)[0] == ("✗ 1 critical", "critical")
    assert ("• 0 info", "quiet") in counts_line([fed(REPORT)], 60, LOOK)


def test_the_counts_have_a_past() -> None:
    feed = fed(make_report(HOLDER), make_report(HOLDER, PREPARED, WAITER))
    line = "".join(text for text, _ in counts_line([feed], 100, LOOK))
    assert line.endswith("▅█  2 held            ▁█  1 waiting")
    both = "".join(text for text, _ in counts_line([feed, fed(REPORT, REPORT, REPORT)], 100, LOOK))
    assert both.endswith("▇█  4 held            ▅█  2 waiting")


def test_a_sparkline_is_as_wide_as_asked_and_full_at_its_greatest() -> None:
    assert sparkline([0, 1, 50, 100], 6, LOOK) == "  ▁▂▅█"
    assert sparkline([7] * 50, 6, LOOK) == "█" * 6
    assert sparkline([0, 0], 3, LOOK) == " ▁▁"
    assert sparkline([0, 3], 2, Look(ASCII, "ascii")) == "_="


def test_the_open_view_stands_in_capitals() -> None:
    line = "".join(text for text, _ in tabs_line("waits", 80, LOOK))
    assert line.split() == ["1", "locks", "2", "jobs", "3", "WAITS", "4", "findings", "5", "history"]
    assert "WAITS" in "".join(text for text, _ in tabs_line("waits", 10, LOOK))


def test_no_banner_while_all_is_fresh() -> None:
    assert banner([fed(REPORT)], 2.0, 1.0, LOOK) == []
    assert banner([fed()], 2.0, 1.0, LOOK) == []


def test_the_banner_tells_a_lost_server_and_the_age_of_what_is_shown() -> None:
    assert banner([fed(REPORT, UNREACHABLE)], 2.0, 34.7, LOOK) == [
        (
            f"✗ What is shown is 34 s old: {UNREACHABLE.error}. It is tried again by itself.",
            "critical",
        )
    ]


def test_the_banner_tells_a_poll_that_does_not_return() -> None:
    silence = "the server has not answered for 9 s."
    assert banner([fed(REPORT)], 2.0, 9.0, LOOK) == [(f"▲ What is shown is 9 s old: {silence}", "warning")]
    assert banner([fed()], 2.0, 9.0, LOOK) == [(f"▲ Nothing is known yet: {silence}", "warning")]


def test_the_banner_tells_a_pause() -> None:
    feed = fed(REPORT)
    feed.toggle_pause(1.0)
    assert banner([feed], 2.0, 5.0, LOOK) == [("• Paused. What is shown is 5 s old; Space goes on.", "info")]


def test_the_hints_tell_the_keys_of_what_has_the_focus_the_place_and_the_filter() -> None:
    def hints(mode: str, wanted: str = "") -> str:
        showing = Showing()
        showing.typed = wanted
        return "".join(text for text, _ in hints_line(mode, (3, 31), showing, 80, LOOK))  # type: ignore[arg-type]

    assert hints("table").split("  ")[0] == "Enter details"
    assert hints("details").startswith("Esc back")
    assert hints("filter", "dig").startswith("Enter keep  Esc clear")
    assert hints("table", "dig\x1b").endswith(r"filter dig\x1b  3/31")


@given(reports(), st.integers(10, 400), st.sampled_from([LOOK, Look(ASCII, "ascii")]))
def test_any_report_fills_the_width_exactly(report: Report, cells: int, look: Look) -> None:
    feed, showing = fed(report, report, report), Showing()
    showing.typed = report.target
    showing.reverse()
    for line in (
        title_line([feed], cells, look, interval=2.0, now=1.0),
        counts_line([feed], cells, look),
        hints_line("table", (1, 10_000), showing, cells, look),
        tabs_line("jobs", cells, look),
    ):
        assert width_of(line) == cells
        text = "".join(text for text, _ in line)
        assert text.isprintable()
        assert look.encoding == "utf-8" or text.isascii()

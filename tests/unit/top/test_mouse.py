"""What the mouse does, beside the keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from textual import events

from pglock_inspect.present.look import Look
from pglock_inspect.top.showing import Showing
from pglock_inspect.top.status import hints_line, key_at, tabs_line
from tests.support.reports import HOLDER, PREPARED, STALE, WAITER, make_report, numbered
from tests.support.screens import open_top

if TYPE_CHECKING:
    from tests.support.screens import Screen

REPORT = make_report(WAITER, PREPARED, HOLDER, findings=(STALE,))
DIGEST, PAIR = (4711, "send_daily_digest"), (None, "7,-42")


async def click(screen: Screen, text: str, *, times: int = 1) -> None:
    """Click on a text where it stands first."""
    y = next(y for y, line in enumerate(screen.lines) if text in line)
    await screen.pilot.click(offset=(screen.lines[y].index(text), y), times=times)
    await screen.pilot.pause()


async def wheel(screen: Screen, turn: type[events.MouseScrollDown | events.MouseScrollUp]) -> None:
    await screen.pilot._post_mouse_events([turn], offset=(10, 6), button=0)
    await screen.pilot.pause()


@pytest.mark.parametrize(
    ("name", "column"),
    [("jobs", "LAST RUN"), ("waits", "WHO"), ("findings", "RULE"), ("history", "HELD FOR")],
)
async def test_a_view_opens_by_its_name(name: str, column: str) -> None:
    async with open_top(REPORT) as screen:
        await click(screen, name)
        assert name.upper() in screen.lines[2]
        assert column in screen.lines[3]
        await click(screen, "1 locks")
        assert "OF MAX" in screen.lines[3]
        await screen.press("down")
        assert screen.selected() == PAIR


async def test_a_column_is_sorted_by_its_head_and_turned_around_by_another_click() -> None:
    async with open_top(numbered(5)) as screen:
        await click(screen, "JOB")
        assert "JOB▾" in screen.lines[3]
        assert screen.rows[0].startswith("job-000")
        await click(screen, "JOB")
        assert "JOB▴" in screen.lines[3]
        assert screen.rows[0].startswith("job-004")
        await click(screen, "PID")
        assert "JOB  " in screen.lines[3]
        assert "PID▾" in screen.lines[3]
        assert screen.rows[0].startswith("job-000")


async def test_a_head_that_nothing_is_sorted_by_does_nothing() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("t")
        before = screen.rows
        await click(screen, "WAITS FOR")
        assert screen.rows == before
        assert "▾" not in screen.lines[3]


async def test_a_row_is_selected_by_a_click_and_told_all_about_by_two() -> None:
    async with open_top(REPORT) as screen:
        await click(screen, "7,-42")
        assert screen.selected() == PAIR
        assert "JOB" in screen.lines[3]
        await click(screen, "✗ send_daily_digest", times=2)
        assert screen.selected() == DIGEST
        assert "JOB" not in screen.text
        await click(screen, "Esc back")
        assert "JOB" in screen.lines[3]


async def test_a_click_below_the_rows_does_nothing() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("down")
        await screen.pilot.click(offset=(5, 9), times=2)
        assert screen.selected() == PAIR
        assert "JOB" in screen.lines[3]


async def test_the_wheel_moves_the_rows_and_not_the_selection() -> None:
    async with open_top(numbered(300)) as screen:
        await wheel(screen, events.MouseScrollDown)
        assert not screen.rows[0].startswith("job-000")
        assert screen.selected() == (1000, "job-000")
        await wheel(screen, events.MouseScrollUp)
        assert screen.rows[0].startswith("job-000")
        await wheel(screen, events.MouseScrollDown)
        await screen.press("down")
        assert any(row.startswith("job-001") for row in screen.rows)


async def test_keys_that_are_told_can_be_clicked() -> None:
    async with open_top(REPORT, size=(100, 30)) as screen:
        await click(screen, "Space pause")
        assert "Paused" in screen.text
        await click(screen, "? help")
        assert "Ctrl-C" in screen.text
        await screen.press("escape")
        await click(screen, "/ filter")
        await screen.press(*"digest")
        await click(screen, "Enter keep")
        assert screen.lines[-1].endswith("filter digest  1/2")
        await click(screen, "q quit")
    assert screen.app.return_code == 0


async def test_the_header_takes_no_keys_away_from_the_table() -> None:
    async with open_top(REPORT) as screen:
        await click(screen, "PostgreSQL")
        await click(screen, "1 critical")
        await screen.press("down")
        assert screen.selected() == PAIR


async def test_esc_leaves_the_details_beside_the_table_and_keeps_the_filter() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("slash", *"digest", "enter")
        await click(screen, "Why")
        assert screen.lines[-1].startswith(" Esc back")
        await screen.press("escape", "down")
        assert screen.lines[-1].endswith("filter digest  2/2")


def test_a_key_is_where_it_and_what_it_does_are_told() -> None:
    tabs = tabs_line("locks", 80, Look())
    assert [key_at(tabs, cell) for cell in (0, 6, 7, 9, 14, 79)] == ["1", "1", "", "2", "2", ""]
    showing = Showing()
    showing.typed = "q"
    assert key_at(hints_line("table", (1, 2), showing, 60, Look()), 54) == "filter"

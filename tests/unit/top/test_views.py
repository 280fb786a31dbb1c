"""Each view, opened with its key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.model import Blocked, Job, JobState, Limits, Name
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.present.spans import width_of
from pglock_inspect.top import views
from pglock_inspect.top.layout import lay_out
from pglock_inspect.top.past import Past
from pglock_inspect.top.rows import Locks
from pglock_inspect.top.view import Row, Sight
from tests.support.any_reports import reports
from tests.support.reports import HOLDER, PREPARED, SESSION, STALE, WAITER, ago, make_report
from tests.support.screens import open_top

if TYPE_CHECKING:
    from pglock_inspect.model import Report

DAY = 86_400.0
DIGEST = Job("send_daily_digest", limits=Limits(max_held=600.0), every=DAY)
REPORT = replace(
    make_report(
        replace(HOLDER, name=Name("send_daily_digest", "config", job=DIGEST)),
        WAITER,
        PREPARED,
        findings=(STALE, replace(STALE, rule="leaked", severity="info", key=None, pid=None, job=None)),
    ),
    jobs=(
        JobState(Job("reindex", every=3600.0), "app", last_held=ago(5400)),
        JobState(DIGEST, "app", held=1, waiters=1, held_seconds=2520.0, last_held=ago(0)),
        JobState(Job("backup", every=DAY), None),
        JobState(Job("vacuum", every=DAY), None, last_held=ago(3600)),
        JobState(Job("leader", long_lived=True), None, last_held=ago(60)),
    ),
)


async def test_jobs_are_there_also_when_they_are_free() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("2")
        assert "2 JOBS" in screen.lines[2]
        assert screen.lines[3].split() == ["JOB", "STATE", "FOR", "LAST", "RUN", "NEXT", "RUN"]
        assert screen.rows == [
            "✗ send_daily_digest held 42 min now in 1 d",
            "backup free – not seen –",  # noqa: RUF001
            "leader free – 1 min ago –",  # noqa: RUF001
            "reindex free – 1 h 30 min ago 30 min late",  # noqa: RUF001
            "vacuum free – 1 h ago in 23 h",  # noqa: RUF001
        ]
        assert "is STALE" in screen.text
        await screen.press("G")
        assert "next run     in 23 h" in screen.text
        await screen.press("slash", *"job:back", "enter")
        assert [row.split()[0] for row in screen.rows] == ["backup"]
        assert "not known: no run was seen yet" in screen.text


@pytest.mark.parametrize("key", ["3", "t"])
async def test_waits_are_a_tree(key: str) -> None:
    chain = {4711: Blocked(4711, SESSION, "a relation lock", 16.0, (77,)), 77: Blocked(77)}
    async with open_top(replace(REPORT, chain=chain), size=(160, 50)) as screen:
        await screen.press(key)
        rows = [row.split(" – ")[0] for row in screen.rows]  # noqa: RUF001
        assert rows == [
            "77 root",
            "✗ └─ 4711 worker-3 16 s a relation lock send_daily_digest 77 idle COMMIT",
            "└─ 4720 worker-1 12 min send_daily_digest",
        ]
        assert "waits for nobody: the root" in screen.text
        await screen.press("j")
        assert screen.selected() == (4711, "send_daily_digest")
        assert "is STALE" in screen.text


@pytest.mark.parametrize("key", ["4", "f"])
async def test_findings(key: str) -> None:
    async with open_top(REPORT) as screen:
        await screen.press(key)
        assert [row.split()[:2] for row in screen.rows] == [["✗", "stale"], ["•", "leaked"]]
        assert "→  pglock-inspect kill 4711 --terminate" in screen.text
        assert screen.selected() == (4711, "send_daily_digest")
        await screen.press("j")
        assert screen.selected() is None


async def test_history_begins_when_the_view_is_opened() -> None:
    async with open_top(make_report(HOLDER), size=(160, 50)) as screen:
        await screen.press("5")
        assert screen.rows == ["Nothing was taken or released since this view was opened."]
        later = replace(make_report(PREPARED), taken_at=ago(-10))
        await screen.show(later)
        assert [row.split()[:3] for row in screen.rows] == [
            ["+", "7,-42", "7,-42"],
            ["-", "send_daily_digest", "-1957215242"],
        ]
        assert screen.selected() == (None, "7,-42")
        await screen.press("j")
        assert screen.selected() is None
        assert "released by pid 4711 (worker-3), held for ~ 42 min" in screen.text


async def test_each_view_keeps_its_selection_and_order() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("G", "2", "j", "r", "1")
        assert screen.lines[-1].endswith("3/3")
        await screen.press("2")
        assert screen.lines[-1].endswith("by worst first, reversed  4/5")
        assert "backup" in screen.rows[3]


async def test_nothing_to_show() -> None:
    async with open_top(make_report()) as screen:
        for key, nothing in (
            ("2", "No job is configured: see pglock-inspect init."),
            ("3", "Nobody waits for a lock."),
            ("4", "Nothing was found: all is as it should be."),
        ):
            await screen.press(key)
            assert screen.rows == [nothing]
            await screen.press("enter", "escape", "y", "Y", "c", "K", "less_than_sign", "greater_than_sign")
            assert screen.app.is_running


@pytest.mark.parametrize("name", views.NAMES)
@pytest.mark.parametrize("look", [Look(), Look(ASCII, "ascii")])
@given(report=reports(), cells=st.integers(39, 300))
def test_any_report_can_be_shown_sorted_filtered_told_and_exported(
    name: str, look: Look, report: Report, cells: int
) -> None:
    view, past = views.load(name), Past()
    past.note(make_report())
    sight = Sight(report, Locks(report.alike), past.note(report))
    items = view.items(sight)
    assert len({view.identity(item) for item in items}) <= len(items)
    for order in view.orders:
        if order.key:
            sorted(items, key=order.key)
    for item in items[:5]:
        row = Row(sight, item)
        view.facts(item), view.record(row), view.lock_of(row), view.describe(row, look)
        for place in lay_out(view.plan, cells):
            spans = place.column.cell(item, place.width, look)
            text = "".join(text for text, _ in spans)
            assert text.isprintable()
            assert width_of(spans) >= 0
            assert look.encoding == "utf-8" or text.isascii()

"""Several servers on one screen."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pglock_inspect.present.look import Look
from pglock_inspect.top.acting import Outcome, Proposal
from pglock_inspect.top.polling import Poller
from pglock_inspect.top.servers import Source
from pglock_inspect.top.ui.app import TopApp
from tests.support.reports import HOLDER, PREPARED, STALE, UNREACHABLE, WAITER, make_report
from tests.support.screens import Clock, Screen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pglock_inspect.model import Lock, Report
    from pglock_inspect.top.acting import Action

PROD = replace(make_report(HOLDER, WAITER, findings=(STALE,)), target="prod")
TEST = replace(make_report(PREPARED), target="test")
LOST = replace(UNREACHABLE, target="test")


@asynccontextmanager
async def open_both(
    prod: Report, test: Report, size: tuple[int, int] = (100, 30)
) -> AsyncIterator[tuple[Screen, list[str]]]:
    asked: list[str] = []

    def propose(name: str) -> object:
        def make(_: Report, lock: Lock, action: Action) -> Proposal:
            asked.append(f"{action} {lock.pid} on {name}")
            return Proposal("?", (), lambda: Outcome("", done=True))

        return make

    sources = [
        Source(name, Poller(make_report, 2.0), propose(name))  # type: ignore[arg-type]
        for name in ("prod", "test")
    ]
    clock = Clock()
    app = TopApp(sources, Look(), clock=clock)
    async with app.run_test(size=size) as pilot:
        for source, report in zip(sources, (prod, test), strict=True):
            source.poller._tell(report)
            await pilot.pause()
        yield Screen(app, pilot, sources[0].poller, clock), asked


async def test_rows_say_which_target_they_are_of() -> None:
    async with open_both(PROD, TEST) as (screen, _):
        assert "2 targets" in screen.lines[0]
        assert "connected" in screen.lines[0]
        assert "2 held  1 waiting" in screen.lines[1]
        assert screen.lines[3].split()[:3] == ["JOB", "TARGET", "STATE"]
        assert [row.split()[:4] for row in screen.rows] == [
            ["✗", "send_daily_digest", "prod", "held"],
            ["7,-42", "test", "prepared", "≥"],
            ["send_daily_digest", "prod", "waiting", "12"],
        ]
        for key in "2345":
            await screen.press(key)
            assert "TARGET" in screen.lines[3]


async def test_the_switcher_shows_one_target_and_all_again() -> None:
    async with open_both(PROD, TEST) as (screen, _):
        await screen.press("T")
        assert "all targets" in screen.text
        await screen.press("down", "down", "enter")
        assert [row.split()[0] for row in screen.rows] == ["7,-42"]
        assert " test " in screen.lines[0]
        assert "TARGET" not in screen.text
        await screen.press("T", "up", "up", "enter")
        assert len(screen.rows) == 3


async def test_the_filter_knows_targets() -> None:
    async with open_both(PROD, TEST) as (screen, _):
        await screen.press("slash", *"target:test", "enter")
        assert [row.split()[0] for row in screen.rows] == ["7,-42"]


async def test_a_process_is_ended_on_its_own_server() -> None:
    async with open_both(replace(TEST, target="prod"), replace(PROD, target="test")) as (screen, asked):
        await screen.press("g", "K", "n")
        assert asked == ["terminate 4711 on test"]


async def test_a_target_that_is_away_holds_nobody_up() -> None:
    async with open_both(PROD, LOST) as (screen, _):
        assert "1 lost" in screen.lines[0]
        assert "✗ test: Nothing is known yet: cannot connect to" in screen.text
        assert len(screen.rows) == 2
        await screen.press("space", "plus")
        assert {source.poller.interval for source in screen.app.servers.sources} == {5.0}


async def test_the_narrowest_screen_has_room_for_the_target() -> None:
    async with open_both(PROD, TEST, size=(40, 10)) as (screen, _):
        strips = screen.app.screen._compositor.render_strips()
        assert [strip.cell_length for strip in strips] == [40] * 10
        assert "prod" in screen.text

"""The terminal view without a terminal."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pglock_inspect.present.look import Look
from pglock_inspect.top.polling import Poller
from pglock_inspect.top.servers import Source
from pglock_inspect.top.ui.app import TopApp
from tests.support.reports import make_report

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from textual.pilot import Pilot

    from pglock_inspect.model import Report
    from pglock_inspect.top.acting import Propose


class Clock:
    """A monotonic clock that the test turns."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


class Seen:
    """What a person sees of a program."""

    app: TopApp

    @property
    def lines(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class Screen(Seen):
    """The program, a report's journey to it, and what a person sees of it."""

    def __init__(self, app: TopApp, pilot: Pilot[BaseException], poller: Poller, clock: Clock) -> None:
        self.app, self.pilot, self.poller, self.clock = app, pilot, poller, clock

    @property
    def rows(self) -> list[str]:
        """The rows of the table, with one blank where there are several."""
        table = self.app.table
        strips = [table.render_line(y).text for y in range(table.size.height)]
        return [" ".join(text.split()) for text in strips if text.strip()]

    def selected(self) -> tuple[int | None, str] | None:
        """The pid and the name of the selected lock."""
        row = self.app.table.selected
        lock = self.app.showing.view.lock_of(row) if row else None
        return (lock.pid, lock.name.text if lock.name else str(lock.key)) if lock else None

    async def show(self, *came: Report | BaseException) -> None:
        for one in came:
            self.poller._tell(one)
            await self.pilot.pause()
            await self._described()

    async def _described(self) -> None:
        """Wait for the first details, which are drawn after the table."""
        for _ in range(200):
            if self.app.table.selected is None or self.app._described is not None:
                break
            await self.pilot.pause(0.02)
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def wait(self, seconds: float) -> None:
        """Let time pass on the program's clock, and its bands notice."""
        self.clock.now += seconds
        self.app.redraw()
        await self.pilot.pause()


@asynccontextmanager
async def open_top(
    *came: Report,
    size: tuple[int, int] = (80, 24),
    look: Look | None = None,
    propose: Propose | None = None,
) -> AsyncIterator[Screen]:
    """Open the program on a server that has told these reports."""
    poller, clock = Poller(make_report, interval=2.0), Clock()  # not started: the test tells what came
    sources = [Source("db.example.org:5432", poller, propose)]
    app = TopApp(sources, look or Look(), clock=clock)
    async with app.run_test(size=size) as pilot:
        screen = Screen(app, pilot, poller, clock)
        await screen.show(*came)
        yield screen

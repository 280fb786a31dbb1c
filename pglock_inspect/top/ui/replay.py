"""The program on the screen while a recording is played: polls come from a file, at any speed."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from textual import on
from textual.binding import Binding
from textual.containers import Container
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from pglock_inspect.errors import BadRecording
from pglock_inspect.model import SEVERITIES
from pglock_inspect.present.text import printable
from pglock_inspect.recording.moment import parse_moment, span
from pglock_inspect.top import playing, status
from pglock_inspect.top.keys import PLAY, REPLAY
from pglock_inspect.top.player import Player
from pglock_inspect.top.polling import Poller
from pglock_inspect.top.servers import Servers, Source
from pglock_inspect.top.ui.app import TopApp
from pglock_inspect.top.ui.around import wrapped
from pglock_inspect.top.ui.painted import Band

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from pglock_inspect.model import Instant, Report
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Span
    from pglock_inspect.recording import Poll, Recording
    from pglock_inspect.top.status import Mode
    from pglock_inspect.top.ui.around import Lines
    from pglock_inspect.top.view import Sight

_FRAME = 0.04
"""Seconds between two pictures, at least."""
_LINES_FOR_TIMELINE = 14


class ReplayApp(TopApp):
    """Plays a recording of the targets from one of its polls on."""

    BINDINGS = [Binding(key.keys, key.action, key.does, show=False, priority=True) for key in PLAY]  # noqa: RUF012
    CSS_PATH = ["app.tcss", "replay.tcss"]  # type: ignore[assignment]  # noqa: RUF012
    groups = REPLAY

    def __init__(
        self,
        recording: Recording,
        targets: Sequence[str],
        look: Look,
        *,
        index: int = 0,
        light: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            [Source(target, Poller(_nothing, 1.0)) for target in targets], look, light=light, clock=clock
        )
        self._targets = targets
        self.recording = recording
        self.player = Player(recording, clock(), index)
        self._around = self._around._replace(
            header=Band(self._header, id="header"), banner=Band(self._banner, id="banner")
        )
        self._found = sorted(recording.findings(), key=lambda mark: SEVERITIES.index(mark[1]))
        self._wake = asyncio.Event()
        self._reading = asyncio.Lock()  # a recording is not for two threads at once
        self.showing.unread = ""
        self._shown = -1
        self._anew = True
        self._read: int | None = None  # the poll that the table shows
        self._unread: str | None = None  # why it is not the one that it should show

    def on_mount(self) -> None:
        """Begin to play."""
        self.run_worker(self._play())
        if self.recording.problem:
            self.tell(self.recording.problem, "critical")

    async def _play(self) -> None:
        while True:
            self.player.advance(self.clock())
            if self._anew or self.player.index != self._shown:
                await self._load(self.player.index)
            wait = self.player.wait(self.clock())
            with suppress(TimeoutError):
                async with asyncio.timeout(None if wait is None else max(wait, _FRAME)):
                    await self._wake.wait()
            self._wake.clear()

    async def _load(self, index: int) -> None:
        """Show a poll; what was remembered of others is forgotten where it does not come after them."""
        anew = self._anew or index < self._shown
        self._anew, self._shown = False, index
        servers = Servers(self.servers.sources, self.clock()) if anew else self.servers
        try:
            async with self._reading:
                sights = await asyncio.to_thread(self._sights, servers, index)
        except BadRecording as error:
            self._anew |= anew
            self._unread = str(error)
            self.redraw()
            return
        self.servers = servers
        self._read, self._unread = index, None
        self.showing.unread = "No server was read up to here."
        for number, sight in sights:
            servers.feeds[number].receive(sight, self.clock())
        self.show()

    def _sights(self, servers: Servers, index: int) -> list[tuple[int, Sight]]:
        # This runs in a thread: with many locks it takes its time.
        numbers = {target: number for number, target in enumerate(self._targets)}
        return [
            (numbers[report.target], servers.sight(numbers[report.target], report))
            for report in self._poll(index)
        ]

    def _poll(self, index: int) -> Poll:
        """Return the reports of the targets that are shown."""
        return tuple(report for report in self.recording.poll(index) if report.target in self._targets)

    # --- What is drawn ---

    @property
    def mode(self) -> Mode:
        """What keys are for now."""
        mode = super().mode
        return "replay" if mode == "table" else mode

    def _header(self, cells: int) -> list[list[Span]]:
        lines = [
            playing.title_line(self.feeds, self.recording, self.player, cells, self.look),
            status.counts_line(self.feeds, cells, self.look),
        ]
        if self.size.height >= _LINES_FOR_TIMELINE:
            lines.append(playing.timeline(self.recording, self._found, self.player.index, cells, self.look))
        return lines

    def _banner(self, cells: int) -> Lines:
        if self._unread is not None:
            shown = None if self._read is None else self.recording.taken_at(self._read)
            return wrapped([playing.unread(self._unread, shown, self.look)], cells)
        moment = self.recording.taken_at(self.player.index)
        return wrapped(playing.banner(self.feeds, moment, self.look), cells)

    # --- What a person does ---

    def _move(self, *, anew: bool = False) -> None:
        self._anew |= anew
        self._notice = None  # it is about the moment that was left
        self._wake.set()
        self.redraw()

    def action_pause(self) -> None:
        """Play, or stop."""
        self.player.toggle(self.clock())
        self._move()

    def action_step(self, steps: int) -> None:
        """Show the next poll or the one before, and stop there."""
        self.player.step(steps, self.clock())
        self._move()

    def action_accelerate(self, steps: int) -> None:
        """Play faster or slower."""
        self.player.accelerate(steps, self.clock())
        self._move()

    def action_find(self, direction: int) -> None:
        """Stop where the next thing was found, or the one before."""
        self.run_worker(self._find(direction), group="find", exclusive=True)

    async def _find(self, direction: int) -> None:
        try:
            async with self._reading:
                hit = await asyncio.to_thread(self._search, self.player.index, direction)
        except BadRecording as error:
            self.tell(str(error), "critical")
            return
        if hit is None:
            self.tell(f"Nothing more was found {'after' if direction > 0 else 'before'} this.")
            return
        index, told = hit
        self.player.step(index - self.player.index, self.clock())
        self._move(anew=True)
        self.tell(*told)

    def _search(self, index: int, direction: int) -> tuple[int, Span] | None:
        # This runs in a thread: what was found may be of another target, poll after poll.
        search = self.recording.next_finding if direction > 0 else self.recording.previous_finding
        while self.is_running:
            hit = search(index)
            if hit is None:
                break
            told = playing.found(self._poll(hit), self._poll(hit - 1) if hit else (), self.look)
            if told:
                return hit, told
            index = hit
        return None

    def action_go_to(self) -> None:
        """Ask for a time, and show what was so then."""

        def chosen(moment: Instant | None) -> None:
            if moment is not None:
                self.player.go(self.recording.index_at(moment), self.clock())
                self._move(anew=True)

        self.push_screen(GoTo(self.recording), chosen)

    def action_deed(self, name: str) -> None:
        """Do what is loaded only now, but nothing to a server."""
        if name in {"cancel", "terminate"}:
            self.tell("This is a recording: nothing in it can be cancelled or terminated.", "warning")
        else:
            super().action_deed(name)


class GoTo(ModalScreen["Instant | None"]):
    """Asks for a time of a recording."""

    BINDINGS = [Binding("escape", "dismiss(None)", show=False)]  # noqa: RUF012

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording
        self._told = Label(Content(f"It is {span(recording)}."))

    def compose(self) -> ComposeResult:
        """Lay the box out."""
        with Container(id="go-to") as box:
            box.border_title = "Go to"
            yield Input(placeholder="14:03, 2026-11-30T14:03:07, +5m, -1m from its end", compact=True)
            yield self._told

    @on(Input.Changed)
    @on(Input.Blurred)
    def _typed(self, message: Input.Changed | Input.Blurred) -> None:
        message.stop()  # the program takes it for its filter's

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        message.stop()
        try:
            self.dismiss(parse_moment(message.value, self._recording))
        except BadRecording as error:
            self._told.update(Content(printable(str(error))))
            self._told.add_class("-wrong")


def _nothing() -> Report:
    raise AssertionError("no server is polled")

"""The program on the screen: reports come in from the poller, keys from the person."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING

from textual import on
from textual.app import App
from textual.binding import Binding
from textual.containers import Container
from textual.message import Message
from textual.widgets import Input, Label

from pglock_inspect.errors import ServerFailure
from pglock_inspect.present.cells import wrap
from pglock_inspect.present.columns import label
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.top import status
from pglock_inspect.top.details import describe, general
from pglock_inspect.top.feed import Feed
from pglock_inspect.top.keys import RUN, SHOW
from pglock_inspect.top.rows import arrange, identity, matching
from pglock_inspect.top.ui import themes
from pglock_inspect.top.ui.help import Help
from pglock_inspect.top.ui.painted import Band
from pglock_inspect.top.ui.pane import Pane
from pglock_inspect.top.ui.table import LockTable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.app import ComposeResult

    from pglock_inspect.model import Lock, Report
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Span
    from pglock_inspect.top.polling import Poller
    from pglock_inspect.top.rows import Identity

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_BANNER_LINES = 3


class TopApp(App[BaseException]):
    """The live table; what `run` returns is the error that ended it, None where the person did.

    ``clock`` is monotonic, in seconds.
    """

    TITLE = "pglock-inspect"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    HORIZONTAL_BREAKPOINTS = [(240, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(20, "-high")]  # noqa: RUF012
    BINDINGS = [  # noqa: RUF012
        # What moves the focus comes first: the next key is for what has it then.
        *(Binding(key.keys, key.action, key.does, show=False, priority=True) for key in SHOW),
        *(Binding(key.keys, key.action, key.does, show=False, priority="ctrl" in key.keys) for key in RUN),
    ]

    class Polled(Message):
        """The poller has something to tell."""

        def __init__(self, came: Report | BaseException, rows: Sequence[Lock]) -> None:
            super().__init__()
            self.came, self.rows = came, rows

    def __init__(
        self,
        poller: Poller,
        target: str,
        look: Look,
        *,
        light: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Told now, so that Textual takes colors away where NO_COLOR is set, instead of making them grey.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.animation_level = "none"
        for theme in themes.ALL.values():
            self.register_theme(theme)
        few_colors = self.no_color or self.console.color_system in {None, "standard"}
        self.theme = (themes.ANSI if few_colors else themes.LIGHT if light else themes.DARK).name
        self._poller = poller
        self._look = look
        self._clock = clock
        self._feed = Feed(target, clock())
        self._described: Identity | None = None
        self._table = LockTable(look)
        self._details = Pane(id="details")
        self._filter = Input(placeholder="job, user, application or database", compact=True)
        self._hints = Band(self._draw_hints, id="hints")
        self._header = Band(self._draw_header, id="header")
        self._banner = Band(self._draw_banner, id="banner")

    def compose(self) -> ComposeResult:
        """Lay the screen out; the style sheet says what is beside what."""
        yield self._header
        yield self._banner
        with Container(id="body"):
            with Container(id="list"):
                yield Band(self._table.heads, id="heads")
                yield self._table
            yield self._details
        with Container(id="filter"):
            yield Label("/")
            yield self._filter
        yield self._hints

    def on_mount(self) -> None:
        """Begin to listen."""
        if self._look.glyphs is ASCII:
            self.add_class("-ascii")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._terminated)
        self.set_interval(1, self._redraw)
        self._show()
        self._poller.listen(self._hear)

    def _hear(self, came: Report | BaseException) -> None:
        # This runs in the poller's thread: what takes long with many locks is done here.
        rows = () if isinstance(came, BaseException) else arrange(came.locks)
        self.post_message(self.Polled(came, rows))

    @on(Polled)
    def _take(self, message: Polled) -> None:
        came = message.came
        if isinstance(came, BaseException):
            self.exit(came)
        elif came.server is None and self._feed.shown is None:
            self.exit(ServerFailure(came.error or "the server cannot be read", came.failure or "other"))
        else:
            self._feed.receive(came, message.rows, self._clock())
            self._show()

    def _show(self) -> None:
        """Show what the feed shows."""
        rows = self._feed.rows
        if rows:
            empty = f"None of {len(rows)} locks matches the filter. Esc clears it."
        elif self._feed.shown:
            empty = "No advisory lock is held or waited for."
        else:
            empty = "Waiting for the server's first answer."
        self._table.show(matching(rows, self._filter.value), empty)
        self._redraw()

    @on(LockTable.Selected)
    def _describe(self, message: LockTable.Selected) -> None:
        report, lock = self._feed.shown, message.lock
        if report is None:
            return
        title = self._look.text(label(lock)) if lock else ""
        sections = describe(lock, report, self._look) if lock else [general(report, self._look)]
        which = identity(lock) if lock else None
        self._details.show(title, sections, anew=which != self._described)
        self._described = which
        self._hints.redraw()

    def _redraw(self) -> None:
        for band in (self._header, self._banner, self._hints):
            band.redraw()

    def _draw_header(self, cells: int) -> Sequence[Sequence[Span]]:
        now, interval = self._clock(), self._poller.interval
        return [
            status.title_line(self._feed, cells, self._look, interval=interval, now=now),
            status.counts_line(self._feed.shown, cells, self._look),
        ]

    def _draw_banner(self, cells: int) -> Sequence[Sequence[Span]]:
        told = status.banner(self._feed, self._poller.interval, self._clock(), self._look)
        return [[(line, meaning)] for text, meaning in told for line in wrap(text, cells)][:_BANNER_LINES]

    def _draw_hints(self, cells: int) -> Sequence[Sequence[Span]]:
        place, wanted = self._table.position, self._filter.value
        return [status.hints_line(self._mode, place, wanted, cells, self._look)]

    @property
    def _mode(self) -> status.Mode:
        return "filter" if self._filter.has_focus else "details" if self._details.has_focus else "table"

    def on_descendant_focus(self) -> None:
        """Tell the keys of what has the focus now."""
        self._hints.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Leave keys to the help while it is open, and to the filter while it is typed."""
        if len(self.screen_stack) > 1:
            return action in {"quit", "suspend_process"}
        return not (self._filter.has_focus and action in {"filter", "details"})

    def action_pause(self) -> None:
        """Hold what is shown, or go on."""
        self._feed.toggle_pause(self._clock())
        self._show()

    def action_interval(self, steps: int) -> None:
        """Poll more or less often."""
        now = self._poller.interval
        beyond = [seconds for seconds in INTERVALS if (seconds > now if steps > 0 else seconds < now)]
        if beyond:
            self._poller.interval = min(beyond) if steps > 0 else max(beyond)
            self._redraw()

    def action_details(self) -> None:
        """Give the details the whole screen, or a part of it again."""
        self.screen.toggle_class("-details")
        self.set_focus(self._details if self.screen.has_class("-details") else self._table)

    def action_leave(self) -> None:
        """Leave the details, else the filter."""
        if self.screen.has_class("-details"):
            self.action_details()
        else:
            self._filter.value = ""
            self.set_focus(self._table)

    def action_filter(self) -> None:
        """Open the line that a filter is typed in."""
        self.screen.remove_class("-details")
        self.screen.add_class("-filtering")
        self.set_focus(self._filter)

    @on(Input.Changed)
    def _filter_changed(self) -> None:
        self._show()

    @on(Input.Submitted)
    def _filter_done(self) -> None:
        self.set_focus(self._table)

    @on(Input.Blurred)
    def _filter_left(self) -> None:
        self.screen.remove_class("-filtering")

    def action_help(self) -> None:
        """Show what the keys do."""
        self.push_screen(Help())

    def _fatal_error(self) -> None:
        # Textual would print the stack with all that is in it; whoever started the program says what failed.
        self.exit(self._exception)

    def _terminated(self) -> None:
        self.exit(return_code=128 + signal.SIGTERM)

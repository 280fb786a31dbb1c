"""The program on the screen: reports come in from the pollers, keys from the person."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from textual import on
from textual.app import App
from textual.binding import Binding
from textual.containers import Container
from textual.message import Message
from textual.widgets import Input, Label

from pglock_inspect.errors import ServerFailure
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.top.details import alone
from pglock_inspect.top.keys import ACT, LIVE, LOOK, RUN, VIEWS
from pglock_inspect.top.servers import Servers
from pglock_inspect.top.showing import Showing
from pglock_inspect.top.terminal import on_hangup
from pglock_inspect.top.ui import themes
from pglock_inspect.top.ui.around import around
from pglock_inspect.top.ui.driver import Driver
from pglock_inspect.top.ui.pane import Pane
from pglock_inspect.top.ui.table import Table
from pglock_inspect.top.view import Sight, identity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from textual.app import ComposeResult, SystemCommand
    from textual.screen import Screen

    from pglock_inspect.model import Report
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Meaning, Span
    from pglock_inspect.top.feed import Feed
    from pglock_inspect.top.servers import Source
    from pglock_inspect.top.status import Mode

_NOTICE_SECONDS = 10.0


class Notice(NamedTuple):
    """What became of something that a person did; told until a time on the program's clock."""

    text: str
    meaning: Meaning
    until: float


class TopApp(App[BaseException]):
    """The live table; what `run` returns is the error that ended it, None where the person did.

    ``clock`` is monotonic, in seconds.
    """

    TITLE = "pglock-inspect"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False  # its own key would say nothing of it; see `action_palette`
    ALLOW_SELECT = False
    HORIZONTAL_BREAKPOINTS = [(240, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(14, "-tabs"), (20, "-high"), (40, "-tall")]  # noqa: RUF012
    BINDINGS = [  # noqa: RUF012
        # What moves the focus comes first: the next key is for what has it then.
        *(Binding(key.keys, key.action, key.does, show=False, priority=True) for key in LOOK),
        *(
            Binding(key.keys, key.action, key.does, show=False, priority="ctrl" in key.keys)
            for key in (*VIEWS, *ACT, *RUN)
        ),
    ]

    groups = LIVE

    class Polled(Message):
        """The poller of a source has something to tell."""

        def __init__(self, source: int, came: Sight | BaseException) -> None:
            super().__init__()
            self.source, self.came = source, came

    def __init__(
        self,
        sources: Sequence[Source],
        look: Look,
        *,
        light: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # Told now, so that Textual takes colors away where NO_COLOR is set, instead of making them grey.
        super().__init__(driver_class=Driver, ansi_color=True if "NO_COLOR" in os.environ else None)
        self.animation_level = "none"
        for theme in themes.ALL.values():
            self.register_theme(theme)
        few_colors = self.no_color or self.console.color_system in {None, "standard"}
        self.theme = (themes.ANSI if few_colors else themes.LIGHT if light else themes.DARK).name
        self.look = look
        self.clock = clock
        self.servers = Servers(sources, clock())
        self.showing = Showing(several=len(sources) > 1)
        self.table = Table(self.showing, look, self._selected)
        self._details = Pane(id="details")
        self._filter = Input(placeholder="digest  job:…  user:…  app:…  db:…", compact=True)
        self._around = around(self)
        self._notice: Notice | None = None
        self._described: Hashable = None

    def compose(self) -> ComposeResult:
        """Lay the screen out; the style sheet says what is beside what."""
        self._fit()
        yield self._around.header
        yield self._around.tabs
        yield self._around.banner
        with Container(id="body"):
            with Container(id="list"):
                yield self._around.heads
                yield self.table
            yield self._details
        yield self._around.notice
        yield self._around.hints

    def on_mount(self) -> None:
        """Begin to listen."""
        if self.look.glyphs is ASCII:
            self.add_class("-ascii")
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ended_by, signal.SIGTERM)
        self._leave_hangup = on_hangup(partial(loop.call_soon_threadsafe, self._ended_by, signal.SIGHUP))
        self.app_resume_signal.subscribe(self, self._repaint)
        self.set_interval(1, self._tick)
        self.show()
        for number, source in enumerate(self.servers.sources):
            source.poller.listen(partial(self._hear, number))

    def _fit(self) -> None:
        """Lay out for the terminal's size at once: Textual would paint everything for another one first."""
        for cells, steps in (
            (self.size.width, self.HORIZONTAL_BREAKPOINTS),
            (self.size.height, self.VERTICAL_BREAKPOINTS),
        ):
            self.screen.add_class(*[name for least, name in steps if cells >= least][-1:])

    def _repaint(self, *_: object) -> None:
        """Paint all of it, where the terminal was in other hands: Textual would paint what changes."""
        for screen in self.screen_stack:
            screen.query("*").refresh()

    def on_unmount(self) -> None:
        """Leave signals as they were."""
        self._leave_hangup()

    # --- What comes in ---

    def _hear(self, source: int, came: Report | BaseException) -> None:
        # This runs in the poller's thread: what takes long with many locks is done here.
        told = came if isinstance(came, BaseException) else self.servers.sight(source, came)
        self.post_message(self.Polled(source, told))

    @on(Polled)
    def _take(self, message: Polled) -> None:
        came, feed = message.came, self.servers.feeds[message.source]
        if isinstance(came, BaseException):
            self.exit(came)
        elif came.report.server is None and feed.shown is None and len(self.servers.feeds) == 1:
            failure = came.report.failure or "other"
            self.exit(ServerFailure(came.report.error or "the server cannot be read", failure))
        else:
            feed.receive(came, self.clock())
            self.show()

    @property
    def feeds(self) -> list[Feed]:
        """Those that the person wants to see."""
        chosen = self.showing.source
        return self.servers.feeds if chosen is None else [self.servers.feeds[chosen]]

    # --- What is drawn ---

    def show(self) -> None:
        """Show what the feed shows."""
        sights = [feed.sight for feed in self.feeds if feed.sight]
        self.table.show(*self.showing.rows(sights))
        self.redraw()
        if self._described is None and self.table.selected:
            self.call_after_refresh(self._describe)  # the table comes first
        else:
            self._describe()

    def _selected(self) -> None:
        self._describe()
        self.redraw()

    def _describe(self) -> None:
        row, view = self.table.selected, self.showing.view
        report = next((feed.shown for feed in self.feeds if feed.shown), None)
        if report is None:
            return
        title = self.look.text(view.title(row.item)) if row else ""
        sections = view.describe(row, self.look) if row else [alone(report, self.look)]
        which = (view.name, identity_of(view, row)) if row else None
        self._details.show(title, sections, anew=which != self._described)
        self._described = which

    def redraw(self) -> None:
        """Draw again what is around the table."""
        for band in self._around:
            band.redraw()

    def _tick(self) -> None:
        around = self._around
        around.notice.redraw()
        if around.banner.redraw():
            around.header.redraw()

    @property
    def mode(self) -> Mode:
        """What keys are for now."""
        # A widget's own has_focus lags behind, by keys that are pressed at once.
        return (
            "filter"
            if self.focused is self._filter
            else "details"
            if self.focused is self._details
            else "table"
        )

    @property
    def notice(self) -> Span | None:
        """What became of something that a person did, for a while after it."""
        notice = self._notice
        return (notice.text, notice.meaning) if notice and self.clock() < notice.until else None

    def tell(self, text: str, meaning: Meaning = "info") -> None:
        """Tell what became of something, for a while."""
        self._notice = Notice(self.look.text(text), meaning, self.clock() + _NOTICE_SECONDS)
        self.redraw()

    # --- What a person does ---

    def on_descendant_focus(self) -> None:
        """Tell the keys of what has the focus now."""
        self.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Leave keys to what is open over the table, and to the filter while it is typed."""
        if len(self.screen_stack) > 1:
            return action in {"quit", "suspend_process"}
        return self.focused is not self._filter or action in _WHILE_TYPING

    def action_view(self, name: str) -> None:
        """Open another view."""
        self.showing.open(name)
        self._close_details()
        self.table.scroll_to(y=0, animate=False)
        self.show()

    def action_pause(self) -> None:
        """Hold what is shown, or go on."""
        self.servers.toggle_pause(self.clock())
        self.show()

    def action_interval(self, steps: int) -> None:
        """Poll more or less often."""
        self.servers.step_interval(steps)
        self.redraw()

    def action_details(self) -> None:
        """Give the details the whole screen, or a part of it again."""
        self.screen.toggle_class("-details")
        self.set_focus(self._details if self.screen.has_class("-details") else self.table)

    def _close_details(self) -> None:
        self.screen.remove_class("-details")
        self.set_focus(self.table)

    def action_leave(self) -> None:
        """Leave the details, else the filter."""
        if self.focused is not self._details:
            self._filter.value = ""
        self._close_details()

    async def action_filter(self) -> None:
        """Open the line that a filter is typed in."""
        if not self._filter.is_attached:
            line = Container(Label("/"), self._filter, id="filter")
            await self.screen.mount(line, before=self._around.notice)
        self.screen.remove_class("-details")
        self.screen.add_class("-filtering")
        self.set_focus(self._filter)

    @on(Input.Changed)
    def _filter_changed(self) -> None:
        self.showing.typed = self._filter.value
        self.show()

    @on(Input.Submitted)
    def _filter_done(self) -> None:
        self.set_focus(self.table)

    @on(Input.Blurred)
    def _filter_left(self) -> None:
        self.screen.remove_class("-filtering")

    def action_sort_column(self, steps: int) -> None:
        """Sort by the next column."""
        self.showing.step(steps, self.table.columns)
        self.show()

    def action_reverse(self) -> None:
        """Turn the order around."""
        self.showing.reverse()
        self.show()

    def action_deed(self, name: str) -> None:
        """Do what is loaded only now."""
        from pglock_inspect.top.ui import deeds  # noqa: PLC0415 - it takes its time

        getattr(deeds, name)(self)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002
        """Return what the palette offers."""
        from pglock_inspect.top.ui import deeds  # noqa: PLC0415

        return deeds.commands(self)

    def _fatal_error(self) -> None:
        # Textual would print the stack with all that is in it; whoever started the program says what failed.
        self.exit(self._exception)

    def _ended_by(self, signum: int) -> None:
        self.exit(return_code=128 + signum)


_WHILE_TYPING = {"leave", "quit", "suspend_process", "app.focus_next", "focus_next"}

"""The lines around the table: what each of them is drawn from."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present.cells import wrap
from pglock_inspect.top import status
from pglock_inspect.top.keys import TEXTUAL
from pglock_inspect.top.ui.painted import Band

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pglock_inspect.present.spans import Span
    from pglock_inspect.top.ui.app import TopApp

    Lines = Sequence[Sequence[Span]]
    Draw = Callable[[TopApp, int], Lines]
    Clicked = Callable[[Sequence[Span], int], None]

_MOST_LINES = 3


class Around(NamedTuple):
    """The bands, from the top of the screen to its end; the table is below ``heads``."""

    header: Band
    tabs: Band
    banner: Band
    heads: Band
    notice: Band
    hints: Band


def around(app: TopApp) -> Around:
    """Return the bands of a program."""

    def band(name: str, draw: Draw, clicked: Clicked | None = None) -> Band:
        return Band(partial(draw, app), clicked, id=name)

    def press(line: Sequence[Span], cell: int) -> None:
        key = TEXTUAL.get(status.key_at(line, cell))
        if key:
            app.simulate_key(key)

    def sort(_line: Sequence[Span], cell: int) -> None:
        app.showing.sort_by(app.table.column_at(cell))
        app.show()

    return Around(
        header=band("header", _header),
        tabs=band("tabs", _tabs, press),
        banner=band("banner", _banner),
        heads=Band(app.table.heads, sort, id="heads"),
        notice=band("notice", _notice),
        hints=band("hints", _hints, press),
    )


def _header(app: TopApp, cells: int) -> Lines:
    interval = app.servers.interval
    return [
        status.title_line(app.feeds, cells, app.look, interval=interval, now=app.clock()),
        status.counts_line(app.feeds, cells, app.look),
    ]


def _tabs(app: TopApp, cells: int) -> Lines:
    return [status.tabs_line(app.showing.view.name, cells, app.look)]


def _banner(app: TopApp, cells: int) -> Lines:
    return wrapped(status.banner(app.feeds, app.servers.interval, app.clock(), app.look), cells)


def _notice(app: TopApp, cells: int) -> Lines:
    return wrapped([app.notice] if app.notice else [], cells)


def _hints(app: TopApp, cells: int) -> Lines:
    return [status.hints_line(app.mode, app.table.position, app.showing, cells, app.look)]


def wrapped(told: Sequence[Span], cells: int) -> Lines:
    """Return what is told in lines that fit, but not too many."""
    return [[(line, meaning)] for text, meaning in told for line in wrap(text, cells)][:_MOST_LINES]

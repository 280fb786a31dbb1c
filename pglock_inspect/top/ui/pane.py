"""Labelled text that scrolls: the details of a lock, the help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView

from pglock_inspect.top.sections import COLUMN, lines_of
from pglock_inspect.top.ui.painted import Painted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.strip import Strip

    from pglock_inspect.present.spans import Span
    from pglock_inspect.top.sections import Section


class Pane(Painted, ScrollView, can_focus=True):
    """Sections of text, wrapped to the width; in columns where there are ``column`` cells for each."""

    BINDINGS = [  # noqa: RUF012 - arrows and the like come with every widget that scrolls
        Binding("k", "scroll_up", show=False),
        Binding("j", "scroll_down", show=False),
        Binding("g", "scroll_home", show=False),
        Binding("G", "scroll_end", show=False),
    ]

    def __init__(self, sections: Sequence[Section] = (), *, id: str, column: int = COLUMN) -> None:  # noqa: A002
        super().__init__(id=id)
        self._sections = sections
        self._column = column
        self._lines: list[list[Span]] = []

    def show(self, title: str, sections: Sequence[Section], *, anew: bool) -> None:
        """Show these sections; from the top where they are about something else than before (``anew``)."""
        self._sections = sections
        self._wrap()
        if anew:
            self.border_title = Content(f" {title} ") if title else None  # a string would be read as markup
            self.scroll_to(y=0, animate=False)

    def on_resize(self) -> None:
        """Wrap to the new width."""
        self._wrap()

    def render_line(self, y: int) -> Strip:
        """Return a line of those in sight."""
        row = y + self.scroll_offset.y
        return self.paint(self._lines[row] if row < len(self._lines) else ())

    def _wrap(self) -> None:
        old, self._lines = (
            self._lines,
            lines_of(self._sections, self.scrollable_content_region.width, self._column),
        )
        self.virtual_size = Size(self.size.width, len(self._lines))
        top = self.scroll_offset.y
        self.repaint(
            row - top
            for row in range(top, top + self.size.height)
            if old[row : row + 1] != self._lines[row : row + 1]
        )

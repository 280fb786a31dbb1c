"""Widgets that draw lines of spans, and repaint no line that has not changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from pglock_inspect.present.spans import width_of
from pglock_inspect.top.ui.themes import styles_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from textual.geometry import Size

    from pglock_inspect.present.spans import Span


class Painted(Widget):
    """Draws spans in the colours of the theme."""

    def paint(self, spans: Iterable[Span], over: Style | None = None) -> Strip:
        """Return one line as wide as the widget; ``over`` is a style on top of each meaning's."""
        base, styles = self.rich_style, styles_of(self.app.theme)
        top = over or Style.null()
        segments = [Segment(text, base + styles[meaning] + top) for text, meaning in spans]
        return Strip(segments, width_of(spans)).extend_cell_length(self.size.width, base + top)


class Band(Painted):
    """A few lines across the screen, drawn by a function of their width; hidden while there are none."""

    def __init__(self, draw: Callable[[int], Sequence[Sequence[Span]]], *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._draw = draw
        self._lines: Sequence[Sequence[Span]] = ()

    def redraw(self) -> None:
        """Draw again, and repaint what came out different."""
        if not self.is_attached:
            return
        old, self._lines = self._lines, self._draw(self._width())
        self.set_class(not self._lines, "-empty")
        if len(old) != len(self._lines):
            self.refresh(layout=True)
        for y, (before, now) in enumerate(zip(old, self._lines, strict=False)):
            if before != now:
                self.refresh(Region(0, y, self.outer_size.width, 1))

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.redraw()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return the number of lines."""
        return len(self._draw(width))

    def render_line(self, y: int) -> Strip:
        """Return a line."""
        return self.paint(self._lines[y] if y < len(self._lines) else ())

    def _width(self) -> int:
        return self.size.width or self.app.size.width - self.gutter.width

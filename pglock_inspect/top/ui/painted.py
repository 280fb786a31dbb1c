"""Widgets that draw lines of spans, and repaint no line that has not changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from pglock_inspect.present.spans import MEANINGS, width_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.style import Style
    from textual.geometry import Size

    from pglock_inspect.present.spans import Span

_COMPONENTS = {meaning: f"meaning--{meaning}" for meaning in MEANINGS}


class Painted(Widget):
    """Knows how meanings look here; the style sheet says so by component classes."""

    COMPONENT_CLASSES = set(_COMPONENTS.values())  # noqa: RUF012

    def paint(self, spans: Iterable[Span], over: Style | None = None) -> Strip:
        """Return one line as wide as the widget; ``over`` is a style on top of each meaning's."""
        base = self.rich_style
        segments = []
        for text, meaning in spans:
            style = self.get_component_rich_style(_COMPONENTS[meaning])
            segments.append(Segment(text, style + over if over else style))
        blank = base + over if over else base
        return Strip(segments, width_of(spans)).extend_cell_length(self.size.width, blank)


class Band(Painted):
    """A few lines across the screen, drawn by a function of their width; hidden while there are none."""

    def __init__(self, draw: Callable[[int], Sequence[Sequence[Span]]], *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._draw = draw
        self._lines: Sequence[Sequence[Span]] = ()

    def redraw(self) -> None:
        """Draw again, and repaint what came out different."""
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

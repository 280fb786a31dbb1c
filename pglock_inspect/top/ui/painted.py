"""Widgets that draw lines of spans, and repaint no line that has not changed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from pglock_inspect.top.ui.themes import styles_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from textual import events
    from textual.geometry import Size

    from pglock_inspect.present.spans import Meaning, Span


class Painted(Widget):
    """Draws spans in the colors of the theme."""

    _base: Style | None = None  # of text; Textual would collect it anew for each line

    def notify_style_update(self) -> None:
        """Forget the style that text had."""
        super().notify_style_update()
        self._base = None

    def paint(self, spans: Iterable[Span], over: Style | None = None) -> Strip:
        """Return one line as wide as the widget; ``over`` is a style on top of each meaning's."""
        if self._base is None:
            self._base = self.rich_style
        styles = _painted_styles(self.app.theme, self._base, over)
        segments = [Segment(text, styles[meaning]) for text, meaning in _joined(spans)]
        return Strip(segments).adjust_cell_length(self.size.width, styles["text"])

    def repaint(self, lines: Iterable[int]) -> None:
        """Paint some lines again, counted from the widget's top."""
        regions = [Region(0, y, self.outer_size.width, 1) for y in lines]
        if regions:
            self.refresh(*regions)


@lru_cache(maxsize=64)
def _painted_styles(theme: str, base: Style, over: Style | None) -> Mapping[Meaning, Style]:
    top = over or Style.null()
    return {meaning: base + style + top for meaning, style in styles_of(theme).items()}


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield the spans with blanks joined to what is before them: fewer pieces are faster to draw."""
    before: Span = ("", "text")
    for text, meaning in spans:
        if meaning == before[1] or not text.strip():
            before = (before[0] + text, before[1])
        else:
            yield before
            before = (text, meaning)
    yield before


class Band(Painted):
    """A few lines across the screen, drawn by a function of their width; hidden while there are none.

    ``clicked`` is called with the line and the cell that a click hit.
    """

    def __init__(
        self,
        draw: Callable[[int], Sequence[Sequence[Span]]],
        clicked: Callable[[Sequence[Span], int], None] | None = None,
        *,
        id: str,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._clicked = clicked
        self._lines: Sequence[Sequence[Span]] = ()

    def redraw(self) -> bool:
        """Draw again, and repaint what came out different; return whether anything did."""
        if not self.is_attached:
            return False
        old, self._lines = self._lines, self._draw(self._width())
        self.set_class(not self._lines, "-empty")
        if len(old) != len(self._lines):
            self.refresh(layout=True)
        lines = enumerate(zip(old, self._lines, strict=False))
        self.repaint(y for y, (before, now) in lines if before != now)
        return old != self._lines

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Tell what was clicked."""
        if self._clicked and event.y < len(self._lines):
            self._clicked(self._lines[event.y], event.x - self.gutter.left)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        """Return the number of lines."""
        return len(self._draw(width))

    def render_line(self, y: int) -> Strip:
        """Return a line."""
        return self.paint(self._lines[y] if y < len(self._lines) else ())

    def _width(self) -> int:
        return self.size.width or self.app.size.width - self.gutter.width

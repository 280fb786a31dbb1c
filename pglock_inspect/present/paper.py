"""What is written on: a terminal, a pipe, a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present.look import Look

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pglock_inspect.present.spans import Meaning, Span

_CLEAR = "\x1b[H\x1b[2J"
_STYLES: dict[Meaning, str] = {
    "strong": "1",
    "quiet": "2",
    "good": "32",
    "info": "36",
    "warning": "33",
    "critical": "1;31",
}


class Paper(NamedTuple):
    """``width`` is in cells, None for lines without end. ``clears``: what is there can be wiped away."""

    look: Look = Look()
    width: int | None = None
    color: bool = False
    clears: bool = False

    @property
    def clear(self) -> str:
        """What makes room for the next picture."""
        return _CLEAR if self.clears else ""

    def line(self, spans: Iterable[Span]) -> str:
        """Return spans as one line, in color where there is color, without blanks at its end."""
        if not self.color:
            return "".join(text for text, _ in spans).rstrip()
        return "".join(
            f"\x1b[{_STYLES[meaning]}m{text}\x1b[0m" if meaning in _STYLES and text.strip() else text
            for text, meaning in spans
        ).rstrip()

"""The signs that stand beside words, in Unicode and for an output that knows ASCII only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pglock_inspect.model import Severity


class Glyphs(NamedTuple):
    """Each sign is one cell wide, but for ``then`` and what draws a tree; ``levels`` are eight heights."""

    critical: str = "✗"
    warning: str = "▲"
    info: str = "•"
    ellipsis: str = "…"
    nothing: str = "–"  # noqa: RUF001 - stands where a value would
    full: str = "━"
    half: str = "╸"
    empty: str = "─"
    beyond: str = "▶"
    at_least: str = "≥"
    at_most: str = "≤"
    about: str = "~"
    then: str = "→"
    levels: str = "▁▂▃▄▅▆▇█"
    down: str = "▾"
    up: str = "▴"
    fork: str = "├─ "
    corner: str = "└─ "
    stem: str = "│  "
    times: str = "×"  # noqa: RUF001 - a sign, not a letter

    def of(self, severity: Severity | None) -> str:
        """Return the sign of a severity; a blank for none."""
        return " " if severity is None else str(getattr(self, severity))


UNICODE = Glyphs()
ASCII = Glyphs(
    critical="X",
    warning="!",
    info="i",
    ellipsis="~",
    nothing="-",
    full="#",
    half="=",
    empty="-",
    beyond=">",
    at_least=">",
    at_most="<",
    about="~",
    then="->",
    levels="__..--==",
    down="v",
    up="^",
    fork="|- ",
    corner="`- ",
    stem="|  ",
    times="x",
)

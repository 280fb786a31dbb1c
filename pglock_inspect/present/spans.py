"""Text with meanings: what is decided here, whoever draws it."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, get_args

from pglock_inspect.present.cells import cut, width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Meaning = Literal["text", "strong", "quiet", "good", "info", "warning", "critical"]
Span = tuple[str, Meaning]

MEANINGS: tuple[Meaning, ...] = get_args(Meaning)


def width_of(spans: Iterable[Span]) -> int:
    """Return the cells that a terminal needs for the spans."""
    return sum(width(text) for text, _ in spans)


def fit(spans: Iterable[Span], cells: int, ellipsis: str, *, right: bool = False) -> list[Span]:
    """Return the spans cut, ending in an ellipsis, or padded to exactly ``cells`` cells."""
    return [*_fit(tuple(spans), cells, ellipsis, right)]


@lru_cache(maxsize=1024)  # most cells of a table say the same from poll to poll
def _fit(spans: tuple[Span, ...], cells: int, ellipsis: str, right: bool) -> Sequence[Span]:  # noqa: FBT001
    fitted: list[Span] = []
    room = cells
    for text, meaning in spans:
        if room == 0:
            break
        shown = cut(text, room, ellipsis)
        fitted.append((shown, meaning))
        room -= width(shown)
    blank: Span = (" " * room, "text")
    return [blank, *fitted] if right else [*fitted, blank]

"""Labelled text under titles, laid out for any width."""

from __future__ import annotations

from itertools import chain, combinations, pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present.cells import pad, wrap
from pglock_inspect.present.spans import fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.present.spans import Meaning, Span

_LABELS = 13
_COLUMN = 54
_GUTTER = 4


class Entry(NamedTuple):
    """A line of text, with what it tells before it."""

    label: str
    text: str
    meaning: Meaning = "text"
    label_meaning: Meaning = "quiet"


class Section(NamedTuple):
    """Entries under a title."""

    title: str
    entries: list[Entry]


def lines_of(sections: Sequence[Section], cells: int) -> list[list[Span]]:
    """Return the sections as lines of at most ``cells`` cells: side by side where there is room."""
    count = max(1, min((cells + _GUTTER) // (_COLUMN + _GUTTER), len(sections)))
    room = (cells + _GUTTER) // count - _GUTTER
    columns = _columns([_block(section, room) for section in sections], count)
    gutter: Span = (" " * _GUTTER, "text")
    return [
        [span for part in line[:-1] for span in (*fit(part, room, ""), gutter)] + line[-1]
        for line in zip_longest(*columns, fillvalue=[])
    ]


def _columns(blocks: Sequence[list[list[Span]]], count: int) -> list[list[list[Span]]]:
    """Return the blocks in ``count`` columns, in their order, so that the longest is as short as can be."""
    divisions = [
        [[*chain(*blocks[start:end])][1:] for start, end in pairwise((0, *cuts, len(blocks)))]
        for cuts in combinations(range(1, len(blocks)), count - 1)
    ]
    return min(divisions, key=lambda columns: max(map(len, columns)))


def _block(section: Section, cells: int) -> list[list[Span]]:
    """Return a blank line, and a section as lines wrapped beside their labels."""
    lines: list[list[Span]] = [[], [(section.title, "strong")]]
    indent = _LABELS if any(len(entry.label) > len("->") for entry in section.entries) else len("-> ")
    for entry in section.entries:
        margin = entry.label
        for line in wrap(entry.text, max(cells - indent, _LABELS)):
            lines.append([(pad(margin, indent), entry.label_meaning), (line, entry.meaning)])
            margin = ""
    return lines

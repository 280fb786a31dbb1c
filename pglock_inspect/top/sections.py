"""Labelled text under titles, laid out for any width."""

from __future__ import annotations

from itertools import chain, combinations, pairwise, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present.cells import cut, pad, width, wrap
from pglock_inspect.present.spans import fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.present.spans import Meaning, Span

_NARROW = 3
_LABELS = 13
LONGEST_LABEL = 21
"""In cells; more of a label is not shown."""

COLUMN = 54
_GUTTER = 4


class Entry(NamedTuple):
    """A line of text, with what it tells before it.

    ``spans`` are the same text, where it has several meanings.
    """

    label: str
    text: str
    meaning: Meaning = "text"
    label_meaning: Meaning = "quiet"
    spans: Sequence[Span] = ()


class Section(NamedTuple):
    """Entries under a title."""

    title: str
    entries: list[Entry]


def lines_of(sections: Sequence[Section], cells: int, column: int = COLUMN) -> list[list[Span]]:
    """Return the sections as lines of at most ``cells`` cells, side by side where there is room.

    ``column`` is how many cells one of several columns needs.
    """
    count = max(1, min((cells + _GUTTER) // (column + _GUTTER), len(sections)))
    room = (cells + _GUTTER) // count - _GUTTER
    columns = _columns([_block(section, room) for section in sections], count)
    gutter: Span = (" " * _GUTTER, "text")
    return [
        [span for part in line[:-1] for span in (*fit(part, room, ""), gutter)] + line[-1]
        for line in zip_longest(*columns, fillvalue=[])
    ]


def plain(sections: Sequence[Section]) -> str:
    """Return the sections as text to be pasted somewhere."""
    return "\n\n".join(
        "\n".join(
            [section.title, *(f"  {pad(entry.label, _LABELS)}{entry.text}" for entry in section.entries)]
        )
        for section in sections
    )


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
    longest = max((width(entry.label) for entry in section.entries), default=0)
    indent = _NARROW if longest < _NARROW else min(max(longest, _LABELS - 1), LONGEST_LABEL) + 1
    heading = indent > _NARROW  # what has no label before all that have one takes the whole width
    for entry in section.entries:
        heading = heading and not entry.label
        margin, blanks = cut(entry.label, indent - 1, ""), 0 if heading else indent
        for line in _wrapped(entry, max(cells - blanks, _LABELS)):
            lines.append([(pad(margin, blanks), entry.label_meaning), *line])
            margin = ""
    return lines


def _wrapped(entry: Entry, cells: int) -> Iterator[list[Span]]:
    lines = wrap(entry.text, cells)
    if not entry.spans:
        yield from ([(line, entry.meaning)] for line in lines)
        return
    meanings = [meaning for text, meaning in entry.spans for _ in text]
    start = 0
    for line in lines:
        start = entry.text.index(line, start)
        yield list(_joined(line, meanings[start : start + len(line)]))
        start += len(line)


def _joined(text: str, meanings: Sequence[Meaning]) -> Iterator[Span]:
    """Yield a text in pieces of one meaning each."""
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or meanings[end] != meanings[start]:
            yield text[start:end], meanings[start]
            start = end

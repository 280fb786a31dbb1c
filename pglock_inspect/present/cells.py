"""Fitting printable text into the cells of a terminal, where a character takes none, one or two."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["cut", "pad", "width", "wrap"]

_BREAK = re.compile(r" (?!(?<=\d )(?:ms|s|min|h|d)\b)")


def width(text: str) -> int:
    """Return the cells that a terminal needs for ``text``."""
    return len(text) if text.isascii() else cell_len(text)


def cut(text: str, cells: int, ellipsis: str) -> str:
    """Return the start of ``text`` that fits ``cells`` cells, with an ellipsis where more was there."""
    if width(text) <= cells:
        return text
    start, _ = _split(text, cells - width(ellipsis))
    return start + ellipsis[:cells]


def pad(text: str, cells: int, *, right: bool = False) -> str:
    """Return ``text`` with blanks up to ``cells`` cells, behind it or (``right``) before it."""
    blanks = " " * (cells - width(text))
    return blanks + text if right else text + blanks


def wrap(text: str, cells: int) -> Iterator[str]:
    """Yield ``text`` as lines of at most ``cells`` cells, broken at blanks where there are some.

    A number stays with its unit of time.
    """
    line = ""
    for word in _BREAK.split(text):
        longer = f"{line} {word}" if line else word
        if width(longer) <= cells:
            line = longer
            continue
        if line:
            yield line
        line = word
        while width(line) > cells:
            start, line = _split(line, max(cells, 2))
            yield start
    yield line


def _split(text: str, cells: int) -> tuple[str, str]:
    for at, character in enumerate(text):
        cells -= width(character)
        if cells < 0:
            return text[:at], text[at:]
    return text, ""

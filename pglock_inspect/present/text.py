"""Text that came from outside, made safe to show.

An application_name, a query or a job's name is whatever somebody sent: escape sequences that repaint a
terminal, bidirectional controls that reorder a line, characters that nobody sees. Every presenter shows such
text through `printable`, which leaves one line of visible characters.
"""

from __future__ import annotations

import re

ELLIPSIS = "…"
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

# Letters and marks to Python, but nothing to the eye: Unicode's Default_Ignorable_Code_Point (version 16)
# without what str.isprintable() refuses by itself.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def printable(text: str, limit: int | None = None) -> str:
    r"""Return ``text`` with everything that is not plainly visible written as an escape such as ``\x1b``.

    Only the first ``limit`` characters are looked at; an ellipsis stands for the rest.
    """
    if limit is not None and len(text) > limit:
        return printable(text[:limit]) + ELLIPSIS
    if text.isprintable() and (text.isascii() or not _INVISIBLE.search(text)):
        return text
    return "".join(map(_visible, text))


def one_line(text: str, limit: int = 1_000) -> str:
    """Return the start of a query with its white space collapsed, made `printable`."""
    start = " ".join(text[:limit].split())
    return printable(start) + (ELLIPSIS if len(text) > limit else "")


def well_formed(text: str) -> str:
    """Return ``text`` with what no encoding of Unicode can carry, a lone surrogate, written as an escape."""
    if text.isascii():
        return text
    return "".join(
        _visible(character) if "\ud800" <= character <= "\udfff" else character for character in text
    )


def _visible(character: str) -> str:
    if character.isprintable() and not _INVISIBLE.match(character):
        return character
    if "\udc80" <= character <= "\udcff":  # a byte that was no UTF-8, kept by surrogateescape
        return f"\\x{ord(character) - 0xDC00:02x}"
    return _SHORT.get(character) or character.encode("unicode_escape", "surrogatepass").decode("ascii")

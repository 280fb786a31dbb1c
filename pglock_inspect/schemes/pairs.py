"""Names of two halves, ``FIRST,SECOND``, as ``pg_advisory_lock(hashtext('…'), hashtext('…'))`` has them.

A bare integer stands for itself, anything else is a text to hash; blanks around a half do not count. Single
quotes, doubled inside as in SQL, make a text of an integer and of what contains a comma, blanks or a quote.
"""

from __future__ import annotations

import re

from pglock_inspect.schemes.postgres_hash import hashtext
from pglock_inspect.schemes.strings import INTEGER

_HALF = rb"\s*('(?:[^']|'')*'\s*|[^\s',][^,]*)"
_PAIR = _HALF + rb"," + _HALF


def hashtext_pair(name: bytes) -> tuple[int, int]:
    """Return the two int4 that ``FIRST,SECOND`` stands for."""
    first, second = halves(name)
    return _int4(first), _int4(second)


def halves(name: bytes) -> tuple[int | bytes, int | bytes]:
    """Split ``FIRST,SECOND`` into integers and texts."""
    match = re.fullmatch(_PAIR, name)
    if match is None:
        raise ValueError("write it as FIRST,SECOND, with '…' around a half that contains a comma")
    return _half(match[1]), _half(match[2])


def pair_name(first: int | str, second: int | str) -> str:
    """Return the name that is split into these two halves."""
    return f"{_written(first)},{_written(second)}"


def _half(text: bytes) -> int | bytes:
    text = text.strip()
    if text.startswith(b"'"):
        return text[1:-1].replace(b"''", b"'")
    if not INTEGER.fullmatch(text):
        return text
    value = int(text)
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{value} does not fit an int4; write '{value}' to hash it as a text")
    return value


def _written(half: int | str) -> str:
    if isinstance(half, int):
        return str(half)
    bare = half and half.strip() == half and not half.startswith("'") and "," not in half
    return half if bare and not half.lstrip("+-").isdecimal() else "'" + half.replace("'", "''") + "'"


def _int4(half: int | bytes) -> int:
    return half if isinstance(half, int) else hashtext(half)

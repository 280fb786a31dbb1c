"""A line as a gzip member (RFC 1952), whose header tells how long the member is and what it is about.

The header's extra field is what allows for that: other readers skip it.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct as Layout
from typing import NamedTuple

from pglock_inspect.model import SEVERITIES, Instant, Severity

_MAGIC = b"\x1f\x8b\x08\x04"  # deflate, with an extra field
_OURS = b"PG"
_UNKNOWN_SYSTEM = 255
_GZIP = 31  # zlib's name for it
_LEVEL = 6

# Magic, time, flags, system, length of the extra field; its name and length; size, instant, kind, news.
_HEADER = Layout("<4sIBBH 2sH IqBB")
_TRAILER = Layout("<II")
_FIELD = 14
HEADER_SIZE = _HEADER.size
BEGINNING = _HEADER.pack(_MAGIC, 0, 0, _UNKNOWN_SYSTEM, _FIELD + 4, _OURS, _FIELD, 0, 0, 0, 0)[:-_FIELD]
"""What every member begins with."""


class Kind(IntEnum):
    """What the line of a member is."""

    HEADING = 0
    WHOLE = 1
    CHANGES = 2


class Header(NamedTuple):
    """``size`` counts the bytes of the member, ``at`` is when its poll was taken.

    ``news`` is the worst severity of what this poll found and the one before it did not.
    """

    size: int
    at: Instant
    kind: Kind
    news: Severity | None = None


def pack(line: bytes, kind: Kind, at: Instant, news: Severity | None = None) -> bytes:
    """Return a line as a member."""
    line += b"\n"
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    deflated = compressor.compress(line) + compressor.flush()
    size = _HEADER.size + len(deflated) + _TRAILER.size
    rank = 0 if news is None else SEVERITIES.index(news) + 1
    field = (_OURS, _FIELD, size, at, kind, rank)
    header = _HEADER.pack(_MAGIC, 0, 0, _UNKNOWN_SYSTEM, _FIELD + 4, *field)
    return header + deflated + _TRAILER.pack(zlib.crc32(line), len(line) & 0xFFFFFFFF)


def read_header(content: bytes) -> Header | None:
    """Return the header that a member begins with, None where there is none."""
    if len(content) < _HEADER.size or not content.startswith(BEGINNING):
        return None
    *_, size, at, kind, rank = _HEADER.unpack_from(content)
    if size <= _HEADER.size + _TRAILER.size or kind not in list(Kind) or rank > len(SEVERITIES):
        return None
    return Header(size, Instant(at), Kind(kind), SEVERITIES[rank - 1] if rank else None)


def unpack(member: bytes) -> bytes:
    """Return the line of a member. Raises ValueError where it is damaged."""
    try:
        return zlib.decompress(member, _GZIP)
    except zlib.error as error:
        raise ValueError(str(error)) from None

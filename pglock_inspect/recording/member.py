"""A line as a gzip member (RFC 1952), whose header tells how long the member is and what it is about.

The header's extra field is what allows for that: other readers skip it.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct as Layout
from typing import NamedTuple

from pglock_inspect.model import SEVERITIES, Instant, Severity

_UNKNOWN_SYSTEM = 255
_GZIP = 31  # zlib's name for it
_LEVEL = 6

# Magic, time, flags, system, and the length of the extra field with the name and the length of ours.
_BEGINNING = Layout("<4sIBBH2sH")
_FIELD = Layout("<IqBB")  # size, instant, kind, rank of the news; then a checksum of them
_CHECKSUM = Layout("<H")
_TRAILER = Layout("<II")

_LENGTH = _FIELD.size + _CHECKSUM.size
BEGINNING = _BEGINNING.pack(b"\x1f\x8b\x08\x04", 0, 0, _UNKNOWN_SYSTEM, _LENGTH + 4, b"PG", _LENGTH)
"""What every member begins with: gzip with deflate, and an extra field of ours."""
HEADER_SIZE = len(BEGINNING) + _LENGTH


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
    size = HEADER_SIZE + len(deflated) + _TRAILER.size
    field = _FIELD.pack(size, at, kind, 0 if news is None else SEVERITIES.index(news) + 1)
    return (
        BEGINNING
        + field
        + _checksum(field)
        + deflated
        + _TRAILER.pack(zlib.crc32(line), len(line) & 0xFFFFFFFF)
    )


def read_header(content: bytes) -> Header | None:
    """Return the header that a member begins with, None where there is none."""
    field, checksum = content[len(BEGINNING) : HEADER_SIZE - 2], content[HEADER_SIZE - 2 : HEADER_SIZE]
    if not content.startswith(BEGINNING) or checksum != _checksum(field):
        return None
    size, at, kind, rank = _FIELD.unpack(field)
    return Header(size, Instant(at), Kind(kind), SEVERITIES[rank - 1] if rank else None)


def unpack(member: bytes) -> bytes:
    """Return the line of a member. Raises ValueError where it is damaged."""
    try:
        return zlib.decompress(member, _GZIP)
    except zlib.error as error:
        raise ValueError(str(error)) from None


def _checksum(field: bytes) -> bytes:
    return _CHECKSUM.pack(zlib.crc32(field) & 0xFFFF)

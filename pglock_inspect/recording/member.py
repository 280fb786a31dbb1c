"""A poll as gzip members (RFC 1952), whose headers tell how long it is and what it is about.

The extra field of a header is what allows for that: other readers skip it. It holds `Header`, and then of
what goes with the text of the poll as much as there is room for: further members, of no text, have the rest.
"""

from __future__ import annotations

import zlib
from struct import Struct as Layout
from typing import NamedTuple

from pglock_inspect.model import SEVERITIES, Instant, Severity

VERSION = 1

_GZIP = 31  # zlib's name for it
_LEVEL = 6

OURS = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"  # deflated, an extra field, no time, whatever the system
"""What every member begins with."""
_NAME = b"pl"
_FIELD = Layout("<H2sHBIqB")  # lengths around the field's name, version, size, instant, rank of the news
_CHECKSUM = Layout("<H")
_TRAILER = Layout("<II")

HEADER_SIZE = len(OURS) + _FIELD.size + _CHECKSUM.size
_BEFORE_EXTRA = len(OURS) + 2
_BEFORE_FIELD = _BEFORE_EXTRA + 4
_ROOM = 0xFFFF - (HEADER_SIZE - _BEFORE_EXTRA)


class Header(NamedTuple):
    """``size`` counts the bytes of the poll, ``at`` is when it was taken.

    ``news`` is the worst severity of what this poll found and the one before it did not.
    """

    size: int
    at: Instant
    news: Severity | None = None
    version: int = VERSION


def pack(
    text: bytes, more: bytes, at: Instant, news: Severity | None = None, version: int = VERSION
) -> bytes:
    """Return a poll: a text, and what goes with it unseen."""
    chunks = [more[start : start + _ROOM] for start in range(0, len(more), _ROOM)] or [b""]
    bodies = [_deflated(text), *[_deflated(b"")] * (len(chunks) - 1)]
    size = sum(HEADER_SIZE + len(chunk) + len(body) for chunk, body in zip(chunks, bodies, strict=True))
    return b"".join(
        _header(Header(size, at, news, version), len(chunk)) + chunk + body
        for chunk, body in zip(chunks, bodies, strict=True)
    )


def _deflated(text: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    deflated = compressor.compress(text) + compressor.flush()
    return deflated + _TRAILER.pack(zlib.crc32(text), len(text) & 0xFFFFFFFF)


def _header(header: Header, more: int) -> bytes:
    length = HEADER_SIZE + more - _BEFORE_FIELD
    field = _FIELD.pack(length + 4, _NAME, length, header.version, header.size, header.at, rank(header.news))
    return OURS + field + _checksum(field)


def read_header(content: bytes) -> Header | None:
    """Return the header that a poll begins with, None where there is none."""
    field, checksum = content[len(OURS) : HEADER_SIZE - 2], content[HEADER_SIZE - 2 : HEADER_SIZE]
    if not content.startswith(OURS) or checksum != _checksum(field):
        return None
    _, name, _, version, size, at, news = _FIELD.unpack(field)
    if name != _NAME or size < HEADER_SIZE or news > len(SEVERITIES):
        return None
    return Header(size, Instant(at), SEVERITIES[news - 1] if news else None, version)


def unpack(poll: bytes) -> tuple[bytes, bytes]:
    """Return the text of a poll, and what goes with it. Raises ValueError where it is damaged."""
    text = more = b""
    while poll:
        length = int.from_bytes(poll[len(OURS) : _BEFORE_EXTRA], "little")
        more += poll[HEADER_SIZE : _BEFORE_EXTRA + length]
        reader = zlib.decompressobj(_GZIP)
        try:
            text += reader.decompress(poll)
        except zlib.error as error:
            raise ValueError(str(error)) from None
        if not reader.eof:
            raise ValueError("its end is missing")
        poll = reader.unused_data
    return text, more


def rank(severity: Severity | None) -> int:
    """Return how bad a severity is, 0 for none."""
    return 0 if severity is None else SEVERITIES.index(severity) + 1


def _checksum(field: bytes) -> bytes:
    return _CHECKSUM.pack(zlib.crc32(field) & 0xFFFF)

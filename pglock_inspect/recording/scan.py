"""Going through the headers of a recording: where its polls are, and up to where it is good."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from msgspec import DecodeError
from msgspec.json import decode, encode

from pglock_inspect.errors import BadRecording
from pglock_inspect.model import SEVERITIES, Instant
from pglock_inspect.recording.member import BEGINNING, HEADER_SIZE, Kind, pack, read_header, unpack

if TYPE_CHECKING:
    from pglock_inspect.model import Severity
    from pglock_inspect.recording.member import Header

VERSION = 1
_FILE = "pglock-inspect recording"
HEADING = pack(encode({"file": _FILE, "version": VERSION}), Kind.HEADING, Instant(0))
"""What a recording begins with."""

_LONGEST_HEADING = 4096


class Index(NamedTuple):
    """Where the polls of a recording are, in the order of the file.

    ``times`` never go back, even if clocks did. ``news`` are ranks: 0 for none, 1 for the least.
    ``end`` is where the last whole member ends; what is behind it is the beginning of one (``cut``), or
    something else that nothing can be told of (``damaged``).
    """

    starts: array[int]
    times: array[int]
    kinds: bytes
    news: bytes
    end: int
    cut: bool = False
    damaged: bool = False


NOTHING = Index(array("Q"), array("q"), b"", b"", 0)
"""What is known of a recording before anybody looked at it."""


def scan(file: BinaryIO, size: int, name: object, known: Index = NOTHING) -> Index:
    """Return the index of a recording of ``size`` bytes, of which ``known`` is the beginning.

    Raises `BadRecording`, which calls it by ``name``, for a file that is none or of a newer version; OSError.
    """
    starts, times = array("Q", known.starts), array("q", known.times)
    kinds, news = bytearray(known.kinds), bytearray(known.news)
    end = known.end or _heading(file, name)
    while end and (header := _header(file, end, size)):
        if header.kind is not Kind.HEADING:
            starts.append(end)
            times.append(max(header.at, times[-1]) if times else header.at)
            kinds.append(header.kind)
            news.append(rank(header.news))
        end += header.size
    cut = end < size and _is_cut(file, end, size)
    return Index(starts, times, bytes(kinds), bytes(news), end, cut, end < size and not cut)


def rank(severity: Severity | None) -> int:
    """Return how bad a severity is, 0 for none."""
    return 0 if severity is None else SEVERITIES.index(severity) + 1


def _heading(file: BinaryIO, name: object) -> int:
    """Return where the heading ends, 0 where nothing but its beginning is there."""
    file.seek(0)
    content = file.read(_LONGEST_HEADING)
    if BEGINNING.startswith(content[: len(BEGINNING)]) and len(content) < len(HEADING):
        return 0
    header = read_header(content)
    version = _version(content[: header.size]) if header else None
    if header is None or version is None:
        raise BadRecording(f"{name} is no recording of pglock-inspect: name another file")
    if version > VERSION:
        raise BadRecording(f"{name} was recorded by a newer pglock-inspect (format {version}): use that one")
    return header.size


def _version(member: bytes) -> int | None:
    try:
        heading = decode(unpack(member))
    except (ValueError, DecodeError):
        return None
    if not isinstance(heading, dict) or heading.get("file") != _FILE:
        return None
    version = heading.get("version")
    return version if isinstance(version, int) else None


def _header(file: BinaryIO, start: int, size: int) -> Header | None:
    """Return the header of a member that is there as a whole."""
    file.seek(start)
    header = read_header(file.read(HEADER_SIZE))
    return header if header and start + header.size <= size else None


def _is_cut(file: BinaryIO, start: int, size: int) -> bool:
    """Whether a file ends in a member that was begun."""
    file.seek(start)
    rest = file.read(HEADER_SIZE)
    if len(rest) < HEADER_SIZE:
        return BEGINNING.startswith(rest[: len(BEGINNING)])
    header = read_header(rest)
    return header is not None and start + header.size > size

"""Going through the headers of a recording: where its polls are, and up to where it is good."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pglock_inspect.errors import BadRecording
from pglock_inspect.recording.member import HEADER_SIZE, OURS, VERSION, rank, read_header

if TYPE_CHECKING:
    from pglock_inspect.recording.member import Header


class Index(NamedTuple):
    """Where the polls of a recording are, in the order of the file.

    ``times`` never go back, even if clocks did. ``news`` are ranks: 0 for none, 1 for the least.
    ``end`` is where the last whole poll ends; what is behind it is the beginning of one (``cut``), or
    something else that nothing can be told of (``damaged``).
    """

    starts: array[int]
    times: array[int]
    news: bytes
    end: int
    cut: bool = False
    damaged: bool = False


NOTHING = Index(array("Q"), array("q"), b"", 0)
"""What is known of a recording before anybody looked at it."""


def scan(file: BinaryIO, size: int, name: object, known: Index = NOTHING) -> Index:
    """Return the index of a recording of ``size`` bytes, of which ``known`` is the beginning.

    Raises `BadRecording`, which calls it by ``name``, for a file that is none or of another version; OSError.
    """
    starts, times, news = array("Q", known.starts), array("q", known.times), bytearray(known.news)
    end, cut = known.end, False
    while end < size:
        file.seek(end)
        beginning = file.read(HEADER_SIZE)
        header = read_header(beginning)
        if not end:
            _check(beginning, header, name)
        cut = _is_cut(beginning, header, size - end)
        if cut or header is None:
            break
        starts.append(end)
        times.append(max(header.at, times[-1]) if times else header.at)
        news.append(rank(header.news))
        end += header.size
    return Index(starts, times, bytes(news), end, cut, damaged=end < size and not cut)


def _check(beginning: bytes, header: Header | None, name: object) -> None:
    """Raise `BadRecording` unless this is what a recording begins with, or as much of it as is there."""
    if header is None and not _is_cut(beginning, header, len(beginning)):
        raise BadRecording(f"{name} is no recording of pglock-inspect: name another file")
    if header and header.version > VERSION:
        raise BadRecording(
            f"{name} was recorded by a newer pglock-inspect (format {header.version}): use that one"
        )


def _is_cut(beginning: bytes, header: Header | None, there: int) -> bool:
    """Whether a poll was begun and not ended, of which ``there`` bytes are there."""
    if header is not None:
        return header.size > there
    return len(beginning) < HEADER_SIZE and OURS.startswith(beginning[: len(OURS)])

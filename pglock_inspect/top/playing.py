"""The lines around the table while a recording is played: when it was, how it goes on, and what was found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.model import SEVERITIES, seconds_between, to_datetime
from pglock_inspect.recording.news import news
from pglock_inspect.top.status import Piece, server_pieces, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.model import Instant, Report, Severity
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Span
    from pglock_inspect.recording import Poll, Recording
    from pglock_inspect.top.feed import Feed
    from pglock_inspect.top.player import Player

_LEAST_BAR = 10


def title_line(
    feeds: Sequence[Feed], recording: Recording, player: Player, cells: int, look: Look
) -> list[Span]:
    """Return the header's first line: what was recorded, and which moment of it is shown."""
    moment = to_datetime(recording.taken_at(player.index))
    report = feeds[0].shown
    target = look.text(feeds[0].target) if len(feeds) == 1 else f"{len(feeds)} targets"
    left = [
        Piece(8, [(look.text(recording.path.name), "quiet")]),
        Piece(3, [(target, "strong")]),
    ]
    if len(feeds) == 1 and report and report.server:
        left += [piece._replace(rank=piece.rank + 7) for piece in server_pieces(report.server, look)]
    right = [
        Piece(1, [_state(player)]),
        Piece(2, [(f"{player.speed:g}{look.glyphs.times}", "text")]),
        Piece(5, [(f"{moment:%Y-%m-%d}", "text")]),
        Piece(0, [(f"{moment:%H:%M:%S}", "strong"), (" UTC", "quiet")]),
        Piece(4, [(f"{player.index + 1}/{len(recording)}", "text")]),
    ]
    return spread(left, right, cells, look)


def _state(player: Player) -> Span:
    if player.at_end:
        return "end", "info"
    return ("playing", "good") if player.playing else ("stopped", "info")


def timeline(
    recording: Recording, found: Iterable[tuple[int, Severity]], index: int, cells: int, look: Look
) -> list[Span]:
    """Return the recording from its first poll to its last: what was found when, and where ``index`` is.

    Of what was ``found`` at one place, the last is shown.
    """
    ends = [f"{to_datetime(end):%H:%M:%S}" for end in (recording.first, recording.last)]
    room = cells - sum(map(len, ends)) - 2
    if room < _LEAST_BAR:
        return []
    last = max(len(recording) - 1, 1)

    def place(of: int) -> int:
        return of * (room - 1) // last

    here = place(index)
    bar: list[Span] = [
        (look.glyphs.full if cell < here else look.glyphs.empty, "quiet") for cell in range(room)
    ]
    for number, severity in found:
        bar[place(number)] = (look.glyphs.of(severity), severity)
    bar[here] = (look.glyphs.beyond, "strong")
    return [(f"{ends[0]} ", "quiet"), *bar, (f" {ends[1]}", "quiet")]


def banner(feeds: Sequence[Feed], moment: Instant, look: Look) -> list[Span]:
    """Return which server could not be read at this moment, a line each."""
    return [
        (
            f"{look.glyphs.critical} {look.text(feed.target)} could not be read: {_why(feed, moment, look)}.",
            "critical",
        )
        for feed in feeds
        if feed.error is not None
    ]


def unread(why: str, shown: Instant | None, look: Look) -> Span:
    """Return why a poll cannot be shown, and when it was that another one is ``shown`` of instead."""
    instead = "" if shown is None else f". What is shown was so at {to_datetime(shown):%H:%M:%S}"
    return f"{look.glyphs.critical} {look.text(why)}{instead}.", "critical"


def _why(feed: Feed, moment: Instant, look: Look) -> str:
    error = look.text(feed.error or "").rstrip(".")
    if feed.shown is None:
        return error
    age = format_duration(float(int(seconds_between(feed.shown.taken_at, moment))))
    return f"{error}. What is shown is {age} older"


def found(poll: Poll, before: Poll, look: Look) -> Span | None:
    """Return the worst that a poll found and the one before it did not, in a sentence; None for little."""
    known = {report.target: report for report in before}
    told = [told for report in poll for told in _found(report, known.get(report.target))]
    if not told:
        return None
    (text, meaning), more = max(told, key=lambda span: SEVERITIES.index(span[1])), len(told) - 1
    return f"{look.glyphs.of(meaning)} {look.text(text)}{f'; and {more} more' if more else ''}", meaning


def _found(report: Report, before: Report | None) -> Iterator[tuple[str, Severity]]:
    if report.server is None and (before is None or before.server is not None):
        yield report.error or "the server cannot be read", "critical"
    for finding in news(report.findings, before.findings if before else ()):
        if finding.severity != "info":
            yield finding.summary, finding.severity

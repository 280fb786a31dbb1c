"""The lines around the table: the header, the tabs, the banner and the hints, for any width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pglock_inspect.durations import format_duration
from pglock_inspect.model import SEVERITIES
from pglock_inspect.present.cells import width
from pglock_inspect.present.spans import Span, fit, width_of
from pglock_inspect.top.feed import Numbers, numbers_of
from pglock_inspect.top.views import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pglock_inspect.model import Server
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Meaning
    from pglock_inspect.top.feed import Connection, Feed
    from pglock_inspect.top.showing import Showing

Mode = Literal["table", "details", "filter", "replay"]

_MEANINGS: dict[Connection, Meaning] = {
    "connecting": "info",
    "connected": "good",
    "silent": "warning",
    "lost": "critical",
}
_BY_CONCERN: tuple[Connection, ...] = ("connected", "connecting", "silent", "lost")
_SEPARATION = "  "
_SPARK = 8
"""A sparkline takes this part of a line."""
_HINTS: dict[Mode, tuple[tuple[int, str, str], ...]] = {
    "table": (
        (4, "Enter", "details"),
        (3, "/", "filter"),
        (5, "s", "sort"),
        (6, "e", "export"),
        (7, "y", "copy"),
        (8, "Space", "pause"),
        (1, "?", "help"),
        (2, "q", "quit"),
    ),
    "replay": (
        (3, "Space", "play"),
        (4, ".", "step"),
        (5, "n", "finding"),
        (6, "@", "time"),
        (7, "+", "faster"),
        (8, "Enter", "details"),
        (1, "?", "help"),
        (2, "q", "quit"),
    ),
    "details": ((1, "Esc", "back"), (3, "Up Down", "scroll"), (4, "?", "help"), (2, "q", "quit")),
    "filter": ((1, "Enter", "keep"), (2, "Esc", "clear")),
}


class Piece(NamedTuple):
    """Part of a line; where room is short, the pieces with the highest ``rank`` go first."""

    rank: int
    spans: Sequence[Span]


def spread(left: Iterable[Piece], right: Iterable[Piece], cells: int, look: Look) -> list[Span]:
    """Return one line of exactly ``cells`` cells with pieces at both ends."""
    ends = [list(left), list(right)]

    def joined(pieces: Iterable[Piece]) -> list[Span]:
        between: Span = (_SEPARATION, "text")
        return [span for piece in pieces for span in (between, *piece.spans)][1:]

    while True:
        lines = [joined(end) for end in ends]
        room = cells - sum(width_of(line) for line in lines)
        everything = [piece for end in ends for piece in end]
        if room >= (len(_SEPARATION) if all(ends) else 0) or len(everything) == 1:
            return fit([*lines[0], (" " * room, "text"), *lines[1]], cells, look.glyphs.ellipsis)
        last = max(everything, key=lambda piece: piece.rank)
        ends = [[piece for piece in end if piece is not last] for end in ends]


def title_line(feeds: Sequence[Feed], cells: int, look: Look, *, interval: float, now: float) -> list[Span]:
    """Return the header's first line: what is watched, and how that goes."""
    left = [Piece(5, [("pglock-inspect", "quiet")])]
    states = [feed.connection(now, interval) for feed in feeds]
    worst = max(states, key=_BY_CONCERN.index)
    right = [Piece(1, [(worst, _MEANINGS[worst])])]
    if len(feeds) > 1:
        left.append(Piece(0, [(f"{len(feeds)} targets", "strong")]))
        if worst != "connected":
            right[0] = Piece(1, [(f"{states.count(worst)} {worst}", _MEANINGS[worst])])
    else:
        feed, report = feeds[0], feeds[0].shown
        left.append(Piece(0, [(look.text(feed.target), "strong")]))
        if report and report.server:
            left += server_pieces(report.server, look)
            if report.poll_seconds is not None:
                right.append(
                    Piece(6, [("read in ", "quiet"), (format_duration(report.poll_seconds), "text")])
                )
    right.append(Piece(4, [("every ", "quiet"), (format_duration(interval), "text")]))
    return spread(left, right, cells, look)


def server_pieces(server: Server, look: Look) -> list[Piece]:
    """Return what kind of server it is."""
    pieces = [
        Piece(3, [("PostgreSQL ", "quiet"), (look.text(server.version), "text")]),
        Piece(2, [("standby", "info") if server.in_recovery else ("primary", "text")]),
    ]
    if server.pooler:
        pieces.append(Piece(7, [("behind a pooler", "warning")]))
    if not server.privileged:
        pieces.append(Piece(8, [("without pg_monitor", "warning")]))
    return pieces


def counts_line(feeds: Sequence[Feed], cells: int, look: Look) -> list[Span]:
    """Return the header's second line: findings by severity; how many locks there are, and were lately."""
    reports = [feed.shown for feed in feeds if feed.shown]
    if not reports:
        return fit([], cells, look.glyphs.ellipsis)
    left = []
    for rank, severity in enumerate(reversed(SEVERITIES)):
        count = sum(finding.severity == severity for report in reports for finding in report.findings)
        meaning: Meaning = severity if count else "quiet"
        left.append(Piece(rank, [(f"{look.glyphs.of(severity)} {count} {severity}", meaning)]))
    held = sum(numbers_of(report).held for report in reports)
    waiting = sum(numbers_of(report).waiting for report in reports)
    right = [
        *_trend(4, [poll.held for poll in _together(feeds)], cells, look),
        Piece(3, [(f"{held}", "strong"), (" held", "quiet")]),
        *_trend(5, [poll.waiting for poll in _together(feeds)], cells, look),
        Piece(3, [(f"{waiting}", "info" if waiting else "text"), (" waiting", "quiet")]),
    ]
    return spread(left, right, cells, look)


def _together(feeds: Sequence[Feed]) -> list[Numbers]:
    """Return the numbers of the last polls, of all servers together."""
    polls = min(len(feed.trend) for feed in feeds)
    trends = [[*feed.trend][len(feed.trend) - polls :] for feed in feeds]
    return [
        Numbers(sum(each.held for each in poll), sum(each.waiting for each in poll))
        for poll in zip(*trends, strict=True)
    ]


def _trend(rank: int, numbers: Sequence[int], cells: int, look: Look) -> Iterable[Piece]:
    if len(numbers) > 1:
        yield Piece(rank, [(sparkline(numbers, cells // _SPARK, look), "quiet")])


def sparkline(numbers: Sequence[int], cells: int, look: Look) -> str:
    """Return the last numbers as heights, of which the greatest is full; the newest stands at the end."""
    levels, most = look.glyphs.levels, max(numbers, default=0) or 1
    heights = [levels[-(-number * (len(levels) - 1) // most)] for number in numbers[-cells:]]
    return "".join(heights).rjust(cells)


def tabs_line(view: str, cells: int, look: Look) -> list[Span]:
    """Return the names of the views, each after its key; the one that is open stands in capitals."""
    pieces = [
        Piece(
            0 if name == view else key,
            [(f"{key} ", "quiet"), (name.upper(), "strong") if name == view else (name, "quiet")],
        )
        for key, name in enumerate(NAMES, start=1)
    ]
    return spread(pieces, [], cells, look)


def banner(feeds: Sequence[Feed], interval: float, now: float, look: Look) -> list[Span]:
    """Return what a person must know before believing the table, a line each; nothing while it is fresh."""
    told = [line for feed in feeds for line in _trouble(feed, interval, now, look, named=len(feeds) > 1)]
    if feeds[0].paused_at is not None and not told:
        age = _age(feeds[0], now)
        return [(f"{look.glyphs.info} Paused. {age}; Space goes on.", "info")]
    return told


def _trouble(feed: Feed, interval: float, now: float, look: Look, *, named: bool) -> Iterable[Span]:
    target = f"{look.text(feed.target)}: " if named else ""
    connection = feed.connection(now, interval)
    if connection == "lost":
        error = look.text(feed.error or "").rstrip(".")
        text = f"{target}{_age(feed, now)}: {error}. It is tried again by itself."
        yield f"{look.glyphs.critical} {text}", "critical"
    elif connection == "silent":
        silence = f"the server has not answered for {_whole(feed.silence(now))}"
        yield f"{look.glyphs.warning} {target}{_age(feed, now)}: {silence}.", "warning"


def _age(feed: Feed, now: float) -> str:
    return f"What is shown is {_whole(feed.age(now))} old" if feed.shown else "Nothing is known yet"


def hints_line(mode: Mode, place: tuple[int, int], showing: Showing, cells: int, look: Look) -> list[Span]:
    """Return the last line: some keys, how the rows were chosen, and which of how many is selected."""
    left = [Piece(rank, [(key, "strong"), (f" {does}", "quiet")]) for rank, key, does in _HINTS[mode]]
    right = [Piece(0, [("{}/{}".format(*place), "text")])]
    if showing.typed and mode != "filter":
        right.insert(0, Piece(0, [("filter ", "quiet"), (look.text(showing.typed), "info")]))
    if showing.sorted_by:
        right.insert(0, Piece(3, [("by ", "quiet"), (showing.sorted_by, "text")]))
    return spread(left, right, cells, look)


def key_at(line: Sequence[Span], cell: int) -> str:
    """Return the first word of the piece at a cell of a line: where pieces tell keys, the key."""
    word, end = "", 0
    for text, _ in line:
        word = (word or text.strip()) if text.strip() else ""
        end += width(text)
        if cell < end:
            break
    return word


def _whole(seconds: float) -> str:
    return format_duration(float(int(seconds)))

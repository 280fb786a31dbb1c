"""The lines around the table: the header, the banner and the hints, for any width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from pglock_inspect.durations import format_duration
from pglock_inspect.model import SEVERITIES
from pglock_inspect.present.spans import Span, fit, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pglock_inspect.model import Report, Server
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Meaning
    from pglock_inspect.top.feed import Connection, Feed

Mode = Literal["table", "details", "filter"]

_MEANINGS: dict[Connection, Meaning] = {
    "connecting": "info",
    "connected": "good",
    "silent": "warning",
    "lost": "critical",
}
_SEPARATION = "  "
_HINTS: dict[Mode, tuple[tuple[int, str, str], ...]] = {
    "table": (
        (4, "Enter", "details"),
        (3, "/", "filter"),
        (5, "Space", "pause"),
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


def title_line(feed: Feed, cells: int, look: Look, *, interval: float, now: float) -> list[Span]:
    """Return the header's first line: what is watched, and how that goes."""
    report = feed.shown
    connection = feed.connection(now, interval)
    left = [Piece(5, [("pglock-inspect", "quiet")]), Piece(0, [(look.text(feed.target), "strong")])]
    right = [Piece(1, [(connection, _MEANINGS[connection])])]
    if report and report.server:
        left += _server_pieces(report.server, look)
        if report.poll_seconds is not None:
            right.append(Piece(6, [("read in ", "quiet"), (format_duration(report.poll_seconds), "text")]))
    right.append(Piece(4, [("every ", "quiet"), (format_duration(interval), "text")]))
    return spread(left, right, cells, look)


def _server_pieces(server: Server, look: Look) -> list[Piece]:
    pieces = [
        Piece(3, [("PostgreSQL ", "quiet"), (look.text(server.version), "text")]),
        Piece(2, [("standby", "info") if server.in_recovery else ("primary", "text")]),
    ]
    if server.pooler:
        pieces.append(Piece(7, [("behind a pooler", "warning")]))
    if not server.privileged:
        pieces.append(Piece(8, [("without pg_monitor", "warning")]))
    return pieces


def counts_line(report: Report | None, cells: int, look: Look) -> list[Span]:
    """Return the header's second line: findings by severity, and how many locks there are."""
    if report is None:
        return fit([], cells, look.glyphs.ellipsis)
    left = []
    for rank, severity in enumerate(reversed(SEVERITIES)):
        count = sum(finding.severity == severity for finding in report.findings)
        meaning: Meaning = severity if count else "quiet"
        left.append(Piece(rank, [(f"{look.glyphs.of(severity)} {count} {severity}", meaning)]))
    held = sum(totals.held for totals in report.totals.values())
    waiting = sum(totals.waiting for totals in report.totals.values())
    right = [
        Piece(3, [(f"{held}", "strong"), (" held", "quiet")]),
        Piece(3, [(f"{waiting}", "info" if waiting else "text"), (" waiting", "quiet")]),
    ]
    return spread(left, right, cells, look)


def banner(feed: Feed, interval: float, now: float, look: Look) -> list[Span]:
    """Return what a person must know before believing the table; nothing while it is fresh."""
    age = f"What is shown is {_whole(feed.age(now))} old" if feed.shown else "Nothing is known yet"
    connection = feed.connection(now, interval)
    if connection == "lost":
        error = look.text(feed.error or "").rstrip(".")
        return [(f"{look.glyphs.critical} {age}: {error}. It is tried again by itself.", "critical")]
    if connection == "silent":
        silence = f"the server has not answered for {_whole(feed.silence(now))}"
        return [(f"{look.glyphs.warning} {age}: {silence}.", "warning")]
    if feed.paused_at is not None:
        return [(f"{look.glyphs.info} Paused. {age}; Space goes on.", "info")]
    return []


def hints_line(mode: Mode, place: tuple[int, int], wanted: str, cells: int, look: Look) -> list[Span]:
    """Return the last line: some keys, what is filtered for, and which of how many rows is selected."""
    left = [Piece(rank, [(key, "strong"), (f" {does}", "quiet")]) for rank, key, does in _HINTS[mode]]
    right = [Piece(0, [("{}/{}".format(*place), "text")])]
    if wanted and mode != "filter":
        right.insert(0, Piece(0, [("filter ", "quiet"), (look.text(wanted), "info")]))
    return spread(left, right, cells, look)


def _whole(seconds: float) -> str:
    return format_duration(float(int(seconds)))

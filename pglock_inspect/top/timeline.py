"""The recent holds of a lock, along a line of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.model import seconds_between, to_datetime
from pglock_inspect.top.sections import Entry, Section
from pglock_inspect.top.tree import called, process_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.model import Instant, Report
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Span
    from pglock_inspect.top.past import Hold

_MOST_LISTED = 10
_CELLS = 36


def recent(holds: Sequence[Hold], report: Report, look: Look) -> Section:
    """Return holds as a line of time and a list, the newest first."""
    entries = [_timeline(holds, report, look)] if holds else []
    entries += [_hold(hold, look) for hold in holds[:_MOST_LISTED]]
    return Section("Recent holds", entries)


def _timeline(holds: Sequence[Hold], report: Report, look: Look) -> Entry:
    """Return when, of the time since the first hold began, somebody held the lock."""
    spells = [_spell(hold, report) for hold in holds]
    start = max(begin for begin, _ in spells)
    scale = _CELLS / max(start, 0.001)
    cells = [False] * _CELLS
    for begin, end in spells:
        first = min(int((start - begin) * scale), _CELLS - 1)
        last = min(int((start - end) * scale), _CELLS - 1)
        cells[first : last + 1] = [True] * (last + 1 - first)
    signs = look.glyphs
    spans: list[Span] = [(signs.full, "info") if held else (signs.empty, "quiet") for held in cells]
    return Entry(f"{format_duration(start)} ago", "".join(text for text, _ in spans), spans=spans)


def _spell(hold: Hold, report: Report) -> tuple[float, float]:
    """Return how many seconds ago a hold began and ended."""
    end = 0.0 if hold.released_at is None else seconds_between(hold.released_at, report.taken_at)
    if hold.taken_at is not None:
        return seconds_between(hold.taken_at, report.taken_at), end
    return end + (hold.seconds or 0.0), end


def _hold(hold: Hold, look: Look) -> Entry:
    by = f"by {called(process_of(hold.lock), look)}"
    if hold.lock.session and hold.lock.session.application_name:
        by += f" ({look.text(hold.lock.session.application_name)})"
    lasted = "" if hold.seconds is None else f" {look.glyphs.about} {format_duration(hold.seconds)}"
    if hold.released_at is None:
        return Entry(_time(hold.changed_at), f"taken {by}, held for{lasted}", "text")
    return Entry(_time(hold.changed_at), f"released {by}{', held for' if lasted else ''}{lasted}")


def _time(instant: Instant) -> str:
    return f"{to_datetime(instant):%H:%M:%S}"

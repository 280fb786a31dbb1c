"""A time of a recording, as people write it."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from reprlib import repr as shortened
from typing import TYPE_CHECKING

from pglock_inspect.durations import parse_duration
from pglock_inspect.errors import BadRecording
from pglock_inspect.model import Instant, to_datetime, to_instant

if TYPE_CHECKING:
    from pglock_inspect.recording.recording import Recording

_SECOND = 1_000_000
_TIME_OF_DAY = re.compile(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", re.ASCII)


def parse_moment(text: str, recording: Recording) -> Instant:
    """Return the instant that a text means in a recording; `Recording.index_at` finds its poll.

    ISO 8601 (UTC, unless it says otherwise), ``14:03`` or ``14:03:07`` of the first day that has this time,
    ``+5m`` from the start, or ``-1m`` from the end. Raises `BadRecording` for another text, and for a time
    that the recording does not reach.
    """
    first, last = recording.first, recording.last
    try:
        moment = _moment(text.strip(), first, last)
    except (ValueError, OverflowError):
        raise BadRecording(
            f"{shortened(text)} is no time: write 14:03, 2026-11-30T14:03:07, +5m from the start, "
            "or -1m from the end"
        ) from None
    # What is shown in whole seconds is meant when it is written so, up to its end.
    if not first - first % _SECOND <= moment < last + _SECOND:
        raise BadRecording(f"{recording.path} does not reach {text.strip()}: it is {span(recording)}")
    whole = moment % _SECOND == 0 and not text.strip().startswith(("+", "-"))
    return Instant(moment + _SECOND - 1) if whole else moment


def span(recording: Recording) -> str:
    """Return from when to when a recording is, in words."""
    first, last = to_datetime(recording.first), to_datetime(recording.last)
    same_day = first.date() == last.date()
    return f"from {first:%Y-%m-%d %H:%M:%S} to {last:{'%H:%M:%S' if same_day else '%Y-%m-%d %H:%M:%S'}} UTC"


def _moment(text: str, first: Instant, last: Instant) -> Instant:
    if text.startswith("+"):
        return Instant(first + round(parse_duration(text[1:]) * _SECOND))
    if text.startswith("-"):
        return Instant(last - round(parse_duration(text[1:]) * _SECOND))
    if _TIME_OF_DAY.fullmatch(text):
        day, clock = to_datetime(first).date(), time.fromisoformat(text)
        moment = _at(day, clock)
        return moment if moment >= first - first % _SECOND else _at(day + timedelta(days=1), clock)
    written = datetime.fromisoformat(text)
    return to_instant(written if written.tzinfo else written.replace(tzinfo=UTC))


def _at(day: date, clock: time) -> Instant:
    return to_instant(datetime.combine(day, clock, UTC))

"""Durations as people write and read them: ``15m`` and ``42 min``. In the program they are seconds."""

from __future__ import annotations

import re
from reprlib import repr as shortened

import durationpy

from pglock_inspect.errors import InvalidDuration

_MILLISECOND = 1_000
_SECOND = 1_000_000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_PAIRS = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", _SECOND, "s"))

# The library also takes years, months ("mm", a slip away from "m"), signs, and anything between two parts.
_PART = r"\d+(?:\.\d+)?\s*(?:ms|s|min|m|h|d|w)"
_WRITTEN = re.compile(rf"{_PART}(?:\s*{_PART})*", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds in ``15m``, ``1h30m``, ``250ms``, ``1.5d``, or in what `format_duration` writes.

    Units are ms, s, m or min, h, d and w. Raises `InvalidDuration`, for a number without a unit too.
    """
    written = text.strip()
    if _NUMBER.fullmatch(written):
        raise InvalidDuration(f"{shortened(text)} has no unit: write 10s for seconds or 10m for minutes")
    if not _WRITTEN.fullmatch(written):
        raise InvalidDuration(
            f"{shortened(text)} is no duration: write numbers with units (ms, s, m, h, d, w), as 90s or 1h30m"
        )
    try:
        return durationpy.from_str("".join(written.split()).replace("min", "m")).total_seconds()
    except durationpy.DurationError:
        raise InvalidDuration(f"{shortened(text)} is out of range: write at most 999999999d") from None


def format_duration(seconds: float) -> str:
    """Return a duration in the one or two units that matter: ``850 ms``, ``1.4 s``, ``3 h 2 min``."""
    microseconds = round(seconds * _SECOND)
    if microseconds < 0:
        return f"-{format_duration(-seconds)}"
    if microseconds < _MINUTE:
        below_a_second = 0 < microseconds < _SECOND
        size, unit = (_MILLISECOND, "ms") if below_a_second else (_SECOND, "s")
        tenths = microseconds * 10 // size
        return f"{tenths / 10:g} {unit}" if tenths < 100 else f"{tenths // 10} {unit}"  # noqa: PLR2004
    size, unit, part, smaller = next(pair for pair in _PAIRS if microseconds >= pair[0])
    rest = microseconds % size // part
    if rest == 0 or (size == _MINUTE and microseconds >= 10 * _MINUTE):
        return f"{microseconds // size} {unit}"
    return f"{microseconds // size} {unit} {rest} {smaller}"

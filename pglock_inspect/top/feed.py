"""What of the reports that arrive is on the screen, and how fresh it is."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from pglock_inspect.model import Report
    from pglock_inspect.top.view import Sight

Connection = Literal["connecting", "connected", "silent", "lost"]

_PATIENCE = 5.0
_REMEMBERED = 60


class Numbers(NamedTuple):
    """How many locks one poll saw."""

    held: int
    waiting: int


class Feed:
    """Keeps the last report that showed the server, while it cannot be read and while paused.

    Times are seconds on a monotonic clock, as the caller reads it. ``trend`` are the numbers of the last
    polls that worked, the newest at its end.
    """

    def __init__(self, target: str, now: float) -> None:
        self._target = target
        self.sight: Sight | None = None
        self.error: str | None = None
        self.paused_at: float | None = None
        self.trend: deque[Numbers] = deque(maxlen=_REMEMBERED)
        self._newest: Sight | None = None
        self._shown_at = now
        self._newest_at = now
        self._heard_at = now

    @property
    def shown(self) -> Report | None:
        """The report that is shown; None before there is one."""
        return self.sight.report if self.sight else None

    @property
    def target(self) -> str:
        """What to call the server: as the report does, or as it was given while there is none."""
        return self.shown.target if self.shown else self._target

    def receive(self, sight: Sight, now: float) -> None:
        """Take in what a poll saw: shown at once, unless paused or without a server."""
        report = sight.report
        self._heard_at = now
        self.error = None if report.server else report.error
        if report.server:
            self._newest, self._newest_at = sight, now
            self.trend.append(numbers_of(report))
            self._show_newest()

    def toggle_pause(self, now: float) -> None:
        """Hold what is shown, or show again what comes; polling goes on either way."""
        self.paused_at = now if self.paused_at is None else None
        self._show_newest()

    def age(self, now: float) -> float:
        """Return the seconds since what is shown was read."""
        return now - self._shown_at

    def connection(self, now: float, interval: float) -> Connection:
        """Return how things stand with the server, where a poll is due every ``interval`` seconds."""
        if self.error is not None:
            return "lost"
        if now - self._heard_at > 1.5 * interval + _PATIENCE:
            return "silent"
        return "connecting" if self._newest is None else "connected"

    def silence(self, now: float) -> float:
        """Return the seconds since the last answer of any kind."""
        return now - self._heard_at

    def _show_newest(self) -> None:
        if self.paused_at is None and self._newest is not None:
            self.sight, self._shown_at = self._newest, self._newest_at


def numbers_of(report: Report) -> Numbers:
    """Return how many locks there are in all databases."""
    totals = report.totals.values()
    return Numbers(sum(each.held for each in totals), sum(each.waiting for each in totals))

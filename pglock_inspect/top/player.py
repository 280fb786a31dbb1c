"""Where in a recording one is, how fast it goes on, and what comes next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pglock_inspect.model import seconds_between

if TYPE_CHECKING:
    from pglock_inspect.model import Instant

SPEEDS = tuple(2.0**power for power in range(-2, 13))
LONGEST_WAIT = 5.0
"""Seconds that one poll is shown at most, however long none was recorded after it."""


class Tape(Protocol):
    """What is known of the polls of a recording, which are numbered from 0."""

    def __len__(self) -> int:
        """Return how many there are; at least one."""
        ...

    def taken_at(self, index: int) -> Instant:
        """Return when a poll was taken, never before the one before it."""
        ...


class Player:
    """Plays from poll to poll. Times are seconds on a monotonic clock, as the caller reads it.

    ``index`` is the poll to show. Between two polls passes the time that did when they were taken, divided
    by ``speed``.
    """

    def __init__(self, tape: Tape, now: float, index: int = 0) -> None:
        self._tape = tape
        self.index = index
        self.speed = 1.0
        self.playing = True
        self._since = now  # this poll is shown; while it does not play, for how long it was

    @property
    def at_end(self) -> bool:
        """Whether no poll comes after this one."""
        return self.index == len(self._tape) - 1

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next poll is to be shown; None where none is."""
        if not self.playing or self.at_end:
            return None
        return max(self._since + self._lasts() - now, 0.0)

    def advance(self, now: float) -> None:
        """Go to the poll that is to be shown now."""
        while self.wait(now) == 0.0:
            self._since += self._lasts()
            self.index += 1

    def go(self, index: int, now: float) -> None:
        """Go to a poll, or as near as there is one; play or not as before."""
        self.index = min(max(index, 0), len(self._tape) - 1)
        self._since = now if self.playing else 0.0

    def step(self, steps: int, now: float) -> None:
        """Go so many polls on, or back, and stop there."""
        self.playing = False
        self.go(self.index + steps, now)

    def toggle(self, now: float) -> None:
        """Play or stop; from the start where all was played."""
        if self.at_end:
            self.playing = True
            self.go(0, now)
        else:
            self.playing = not self.playing
            self._since = now - self._since

    def accelerate(self, steps: int, now: float) -> None:
        """Play faster by so many of `SPEEDS`, or slower; 0 for the speed that things had."""
        old, at = self.speed, SPEEDS.index(self.speed) + steps if steps else SPEEDS.index(1.0)
        self.speed = SPEEDS[min(max(at, 0), len(SPEEDS) - 1)]
        if self.playing:
            self._since = now - (now - self._since) * old / self.speed

    def _lasts(self) -> float:
        """Return for how long the poll of now is shown."""
        gap = seconds_between(self._tape.taken_at(self.index), self._tape.taken_at(self.index + 1))
        return min(gap / self.speed, LONGEST_WAIT)

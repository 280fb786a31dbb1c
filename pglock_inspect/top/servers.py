"""The servers on the screen: where the reports of each come from, and what of them is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.top.feed import Feed
from pglock_inspect.top.past import Past
from pglock_inspect.top.rows import Locks
from pglock_inspect.top.view import Sight

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.model import Report
    from pglock_inspect.top.acting import Propose
    from pglock_inspect.top.polling import Poller
    from pglock_inspect.top.view import Row

INTERVALS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Source(NamedTuple):
    """A server to show. ``propose`` is how its processes are ended, None where they cannot be."""

    target: str
    poller: Poller
    propose: Propose | None = None


class Servers:
    """Sources, with a feed for each. Times are seconds on a monotonic clock, as the caller reads it."""

    def __init__(self, sources: Sequence[Source], now: float) -> None:
        self.sources = sources
        self.feeds = [Feed(source.target, now) for source in sources]
        self._pasts = [Past() for _ in sources]
        self._locks = [Locks() for _ in sources]

    @property
    def interval(self) -> float:
        """The pause between two polls, which is the same for all."""
        return self.sources[0].poller.interval

    def step_interval(self, steps: int) -> None:
        """Poll all less often, or more often where ``steps`` is below 0."""
        now = self.interval
        beyond = [seconds for seconds in INTERVALS if (seconds > now if steps > 0 else seconds < now)]
        if beyond:
            for source in self.sources:
                source.poller.interval = min(beyond) if steps > 0 else max(beyond)

    def sight(self, number: int, report: Report) -> Sight:
        """Return what a report of a source shows; with many locks this takes its time."""
        if report.server is None:
            return Sight(report)
        locks = self._locks[number] = Locks(report.alike, self._locks[number])
        return Sight(report, locks, self._pasts[number].note(report))

    def source_of(self, row: Row) -> Source:
        """Return where a row comes from."""
        return next(
            source
            for source, feed in zip(self.sources, self.feeds, strict=True)
            if feed.shown and feed.shown.target == row.sight.report.target
        )

    def toggle_pause(self, now: float) -> None:
        """Hold what is shown of all, or go on."""
        for feed in self.feeds:
            feed.toggle_pause(now)

"""The loop: read, name, fold, judge, report."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from pglock_inspect.errors import ServerFailure
from pglock_inspect.findings import Scene, judge
from pglock_inspect.holds import fold, rename
from pglock_inspect.model import Counters, Report, to_instant
from pglock_inspect.names import Learner
from pglock_inspect.postgres import Lookups, Reader, where
from pglock_inspect.report import make_report
from pglock_inspect.runs import note_runs
from pglock_inspect.stamps import settle_stamps
from pglock_inspect.state import Memory, State, recall, remember
from pglock_inspect.tallies import count_holds
from pglock_inspect.waits import note_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from pglock_inspect.config import Settings
    from pglock_inspect.holds import History
    from pglock_inspect.model import Instant, Snapshot

JITTER = 0.1
"""Polls come up to this share early or late, so that they never keep step with a job."""

LONGEST_BACKOFF = 30.0


class Watcher:
    """Watches one server; reconnects where it has to. Not for two threads at once.

    ``target`` is what to call it, by default host:port as libpq reached it. ``state`` is what an earlier
    watcher observed, by the same clock. ``clock`` (monotonic, seconds), ``sleep`` and ``random`` are what
    time and chance are taken from. Raises `BadConnectionString`.
    """

    def __init__(
        self,
        dsn: str,
        settings: Settings,
        *,
        target: str | None = None,
        state: State | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = random.random,
    ) -> None:
        address = where(dsn)  # also of a named target: what cannot be read is told now
        self.target = target or address
        self._named = target is not None
        self._dsn = dsn
        self._settings = settings
        self._clock, self._sleep, self._random = clock, sleep, random
        self._names = Learner(settings.jobs, settings.scheme)
        self._memory = recall(state) if state else Memory()
        self._read_at: Instant | None = None
        self._poll_seconds: float | None = None
        self._reader: Reader | None = None
        self._lookups: Lookups | None = None
        self._failing_since: Instant | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session with the server."""
        if self._reader:
            self._reader.close()
            self._reader = None

    @property
    def reader(self) -> Reader | None:
        """The session with the server, while there is one; to act in between polls."""
        return self._reader

    @property
    def problem(self) -> str | None:
        """What is wrong with ``names_query``, in a sentence; no poll fails by it."""
        return self._lookups.problem if self._lookups else None

    @property
    def state(self) -> State:
        """What was observed so far, for a later watcher to go on from; another thread may ask too."""
        return remember(self._memory)

    def poll(self) -> Report:
        """Read the server once and report; a server that cannot be read is reported too."""
        try:
            snapshot = self._read()
        except ServerFailure as failure:
            if self._reader and not self._reader.usable:
                self.close()  # else it is kept: while the lock table is full, there would be no other
            return self.failed(failure)
        self._failing_since = None
        self._read_at, self._poll_seconds = snapshot.taken_at, snapshot.poll_seconds
        return self._report(snapshot)

    def failed(self, failure: ServerFailure) -> Report:
        """Count a poll that failed, and report it."""
        count = self._memory.failures.get(failure.reason, 0) + 1
        self._memory = self._memory._replace(failures={**self._memory.failures, failure.reason: count})
        now = to_instant(datetime.now(UTC))
        self._failing_since = self._failing_since or now
        return Report(
            target=self.target,
            taken_at=now,
            error=str(failure),
            failure=failure.reason,
            failing_since=self._failing_since,
            read_at=self._read_at,
            poll_seconds=self._poll_seconds,
            counters=self._counters,
        )

    @property
    def _counters(self) -> Counters:
        return Counters(self._memory.failures, self._memory.tallies.totals)

    def reports(self, interval: float | None = None) -> Iterator[Report]:
        """Yield a report every ``interval`` seconds, forever; less often while the server is away."""
        interval = interval or self._settings.interval
        failures = 0
        while True:
            report = self.poll()
            yield report
            failures = failures + 1 if report.error else 0
            self._sleep(pause(interval, failures, self._random()))

    def _read(self) -> Snapshot:
        if self._reader is None:
            self._reader = Reader(self._dsn, clock=self._clock)
            self._lookups = Lookups(
                self._reader.connection,
                names_query=self._settings.names_query,
                read_tables=self._settings.read_tables,
                clock=self._clock,
            )
            if not self._named:
                self.target = self._reader.target
        return self._reader.read()

    def _report(self, snapshot: Snapshot) -> Report:
        settings, memory = self._settings, self._memory
        history = self._fold(snapshot)
        runs = note_runs(memory.runs, history, settings.jobs)
        waits = note_waits(memory.waits, snapshot)
        scene = Scene(history, settings.limits, settings.jobs, runs, waits)
        tallies = count_holds(memory.tallies, scene)
        self._memory = Memory(history, runs, waits, tallies, memory.failures)
        report = make_report(self.target, scene, judge(scene, settings.rules))
        return replace(report, counters=self._counters)

    def _fold(self, snapshot: Snapshot) -> History:
        """Return the history with this poll, under all names that can be had for it."""
        history = settle_stamps(fold(self._memory.history, snapshot, self._names.book))
        self._names.listen(snapshot, history.groups)
        if self._lookups:
            self._lookups.ask(self._names, history)
        if self._names.book is not history.book:
            history = settle_stamps(rename(history, self._names.book))
        return history


def pause(interval: float, failures: int, chance: float) -> float:
    """Return the seconds until the next poll: jittered, and doubled for each failure in a row up to a cap.

    ``chance`` is from 0 up to 1.
    """
    backoff = interval * float(1 << min(failures, 10))
    longest = max(interval, LONGEST_BACKOFF)
    return min(backoff, longest) * (1 + JITTER * (2 * chance - 1))

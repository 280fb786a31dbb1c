"""One target, polled in a thread of its own."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from itertools import count
from random import random
from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.errors import ServerFailure
from pglock_inspect.model import Report, to_instant
from pglock_inspect.serve.exposition import Format, families_of
from pglock_inspect.watch import pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from pglock_inspect.errors import FailureReason
    from pglock_inspect.watch import Watcher

_serials = count()


class Latest:
    """The last report of a target, with a ``serial`` of its own and when it came, by the monotonic clock.

    ``made`` are its metrics in those formats, by content type, that somebody has asked for.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.came_at = time.monotonic()
        self.serial = next(_serials)
        self.made: dict[str, list[bytes]] = {}


class Target:
    """Polls a server until it is stopped, whatever becomes of the server.

    ``tell`` is called with a sentence when its health changes, ``interval`` is in seconds. The thread is a
    daemon: a server that hangs must not keep the program from ending.
    """

    def __init__(self, watcher: Watcher, interval: float, tell: Callable[[str], None]) -> None:
        self.name = watcher.target
        self.watcher = watcher
        now = to_instant(datetime.now(UTC))
        self.latest = Latest(Report(self.name, now, error=f"{self.name} has not been polled yet"))
        self.read_at: float | None = None
        self._interval = interval
        self._tell = tell
        self._failure: FailureReason | None = None
        self._failing_since = time.monotonic()
        self._problem: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"target {self.name}", daemon=True)

    def start(self, delay: float = 0.0) -> None:
        """Begin to poll after ``delay`` seconds."""
        self._delay = delay
        self._thread.start()

    def stop(self) -> None:
        """Let the poll that may be under way be the last one."""
        self._stop.set()

    def join(self, timeout: float) -> bool:
        """Wait for that; return whether it has come to its end."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def age(self) -> float | None:
        """Seconds since the last poll that worked; None where there was none."""
        return None if self.read_at is None else time.monotonic() - self.read_at

    def _run(self) -> None:
        delay, failures = self._delay, 0
        while not self._stop.wait(delay):
            report = self._poll()
            if report.error is None:
                self.read_at, failures = time.monotonic(), 0
            else:
                failures += 1
            latest = Latest(report)
            for content_type in self.latest.made:  # before anybody asks, as somebody did before
                families_of(latest, Format(content_type))
            self.latest = latest
            self._tell_changes(report)
            delay = pause(self._interval, failures, random())  # noqa: S311 - a jitter
        self.watcher.close()

    def _poll(self) -> Report:
        try:
            return self.watcher.poll()
        except Exception as error:  # noqa: BLE001 - one target's trouble is not the others'
            self.watcher.close()
            # Without its text, which may quote a password.
            return self.watcher.failed(
                ServerFailure(
                    f"something unforeseen went wrong ({type(error).__name__}): "
                    "run pglock-inspect ls on this server with PGLOCK_DEBUG=1",
                    "other",
                )
            )

    def _tell_changes(self, report: Report) -> None:
        """Say what is new about the target's health: not what is still the same."""
        if report.failure != self._failure:
            if report.error is not None:
                self._tell(f"{self.name}: {report.error}")
            else:
                self._tell(f"{self.name}: can be read again, after {format_duration(self._away())}")
        if self._failure is None and self.read_at is not None:
            self._failing_since = self.read_at  # a poll may take long to fail
        problem = self.watcher.problem
        if problem and problem != self._problem:
            self._tell(f"{self.name}: {problem}")
        self._failure, self._problem = report.failure, problem

    def _away(self) -> float:
        return time.monotonic() - self._failing_since

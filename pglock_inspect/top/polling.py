"""Polling beside the screen, so that a server that hangs never holds up a key press."""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pglock_inspect.model import Report

    Listener = Callable[[Report | BaseException], None]


class Poller:
    """Polls in a thread of its own and tells one listener what came: a report, or the error that ended it.

    ``pause`` returns the seconds to wait, of the interval and the number of failures in a row. The thread is
    a daemon: a poll that never returns must not keep the program from quitting.
    """

    def __init__(
        self,
        poll: Callable[[], Report],
        interval: float,
        pause: Callable[[float, int], float] = lambda interval, _: interval,
    ) -> None:
        self._poll = poll
        self._interval = interval
        self._pause = pause
        self._told: list[Report | BaseException] = []
        self._listener: Listener = self._told.append
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="poller", daemon=True)

    @property
    def interval(self) -> float:
        """The pause between two polls; a new one counts at once."""
        return self._interval

    @interval.setter
    def interval(self, seconds: float) -> None:
        self._interval = seconds
        self._wake.set()

    def start(self) -> None:
        """Begin to poll; what comes before somebody listens is kept for them."""
        self._thread.start()

    def listen(self, listener: Listener) -> None:
        """Tell ``listener`` from now on, in the poller's thread; and now what it missed."""
        with self._lock:
            for told in self._told[-1:]:
                listener(told)
            self._listener = listener

    def do(self, work: Callable[[], None]) -> None:
        """Do something in the poller's thread, between two polls, as soon as may be."""
        self._work.put(work)
        self._wake.set()

    def stop(self, patience: float = 0.2) -> bool:
        """Tell nobody anything any more; return whether the last poll has come to its end."""
        self._stopped = True
        self._wake.set()
        with self._lock:
            self._listener = lambda _: None
        self._thread.join(patience)
        return not self._thread.is_alive()

    def _run(self) -> None:
        failures = 0
        while not self._stopped:
            try:
                while not self._work.empty():
                    self._work.get()()
                report = self._poll()
                self._tell(report)
            except BaseException as error:  # noqa: BLE001 - handed over: the main thread raises it
                self._tell(error)
                return
            failures = failures + 1 if report.error else 0
            self._wake.wait(self._pause(self._interval, failures))
            self._wake.clear()

    def _tell(self, came: Report | BaseException) -> None:
        with self._lock:
            self._listener(came)

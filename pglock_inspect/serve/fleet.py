"""All targets of an exporter, and the file that carries what they counted to the next one."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from pglock_inspect.errors import BadStateFile
from pglock_inspect.serve.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pglock_inspect.serve.target import Latest
    from pglock_inspect.state_file import StateFile
    from pglock_inspect.watch import Watcher

_APART = 0.02  # seconds between the first polls of two targets
_PATIENCE = 1.0  # seconds that polls under way get to end, when all is stopped
_SAVED_EVERY = 30.0  # seconds
_SLOWEST_POLL = 10.0  # seconds, by the time-out of its statements


class Fleet:
    """A context manager: the targets are polled inside the ``with`` block.

    ``interval`` is in seconds; ``tell`` is called with a sentence on what a person should know. Raises
    `BadStateFile` on entry where the file cannot be written.
    """

    def __init__(
        self,
        watchers: Iterable[Watcher],
        interval: float,
        tell: Callable[[str], None],
        state_file: StateFile | None = None,
    ) -> None:
        self.targets: Mapping[str, Target] = {
            watcher.target: Target(watcher, interval, tell) for watcher in watchers
        }
        self.fresh_for = 3 * interval + _SLOWEST_POLL
        self.interval = interval
        self._tell = tell
        self._file = state_file
        self._stop = threading.Event()
        self._saver = threading.Thread(target=self._save_now_and_then, name="state", daemon=True)

    def __enter__(self) -> Self:
        if self._file:
            self._save(self._file)
            self._saver.start()
        for number, target in enumerate(self.targets.values()):
            target.start(min(number * _APART, self.interval))
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for target in self.targets.values():
            target.stop()
        patience = time.monotonic() + _PATIENCE
        for target in self.targets.values():
            target.join(max(0.0, patience - time.monotonic()))
        if self._file:
            self._saver.join()
            self._try_to_save(self._file)

    def latest(self, name: str | None = None) -> tuple[Latest, ...]:
        """Return what is known of one target, or of all. Raises KeyError."""
        targets = self.targets.values() if name is None else [self.targets[name]]
        return tuple(target.latest for target in targets)

    @property
    def fresh(self) -> int:
        """The number of targets that a poll has read not long ago."""
        ages = [target.age for target in self.targets.values()]
        return sum(age is not None and age <= self.fresh_for for age in ages)

    def _save_now_and_then(self) -> None:
        assert self._file
        failed = False
        while not self._stop.wait(_SAVED_EVERY):
            failed = not self._try_to_save(self._file, quiet=failed)

    def _try_to_save(self, file: StateFile, *, quiet: bool = False) -> bool:
        """Return whether it worked; otherwise say so."""
        try:
            self._save(file)
        except BadStateFile as error:
            if not quiet:
                self._tell(str(error))
            return False
        return True

    def _save(self, file: StateFile) -> None:
        file.save({name: target.watcher.state for name, target in self.targets.items()})

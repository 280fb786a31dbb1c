"""Reading a recording at any time of it."""

from __future__ import annotations

import os
from bisect import bisect_right
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO, Self

from pglock_inspect.errors import BadRecording
from pglock_inspect.model import SEVERITIES, Instant
from pglock_inspect.recording.document import report_of
from pglock_inspect.recording.member import rank, unpack
from pglock_inspect.recording.rest import decoded
from pglock_inspect.recording.scan import NOTHING, scan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pglock_inspect.model import Report, Severity

Poll = tuple["Report", ...]
"""What was seen at one time: a report per target, in the order in which they were given."""


class Recording:
    """The polls of a file, by their numbers from 0 up to ``len()``; not for two threads at once.

    It may still be written to: `refresh` takes in what was added. Any poll costs its own decoding, wherever
    it is. Reports are as they were, ages as of their ``taken_at``. ``problem`` is a sentence where the rest
    of the file cannot be read.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self.path = path
        self._index = NOTHING
        self.refresh()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a recording. Raises `BadRecording`; one without a poll is none."""
        with ExitStack() as failing:
            try:
                if path.exists() and not path.is_file():
                    raise BadRecording(f"{path} is not a file: name a recording")
                file = failing.enter_context(path.open("rb"))
            except OSError as error:
                raise _unreadable(path, error) from None
            recording = cls(file, path)
            if not len(recording):
                raise BadRecording(f"{path} is empty: nothing was recorded yet")
            failing.pop_all()
        return recording

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __len__(self) -> int:
        return len(self._index.starts)

    def __iter__(self) -> Iterator[Poll]:
        return map(self.poll, range(len(self)))

    def refresh(self) -> None:
        """Take in what was written since. Raises `BadRecording`."""
        try:
            size = os.fstat(self._file.fileno()).st_size
            self._index = scan(self._file, size, self.path, self._index)
        except OSError as error:
            raise _unreadable(self.path, error) from None
        damage = f"{self.path} is damaged at byte {self._index.end}: what follows is not shown"
        self.problem = damage if self._index.damaged else None

    def taken_at(self, index: int) -> Instant:
        """Return when a poll was taken, by the latest clock of its servers; this never goes back."""
        return Instant(self._index.times[index])

    @property
    def first(self) -> Instant:
        """When the first poll was taken."""
        return self.taken_at(0)

    @property
    def last(self) -> Instant:
        """When the last poll was taken."""
        return self.taken_at(-1)

    def poll(self, index: int) -> Poll:
        """Return the reports of a poll. Raises `BadRecording` where they are damaged, and IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        start = self._index.starts[index]
        try:
            text, rest = unpack(self._read(index))
            lines = zip(text.splitlines(), decoded(rest), strict=True)
            return tuple(report_of(line, its_rest) for line, its_rest in lines)
        except (ValueError, LookupError, TypeError) as error:
            raise BadRecording(f"{self.path} is damaged at byte {start}: choose another time") from error

    def targets(self) -> list[str]:
        """Return the targets of the first and of the last poll that are not damaged.

        Raises `BadRecording` where all are.
        """
        numbers = range(len(self))
        ends = [*self._first_good(numbers), *self._first_good(reversed(numbers))]
        return [*dict.fromkeys(report.target for report in ends)]

    def _first_good(self, numbers: Iterable[int]) -> Poll:
        failure: BadRecording | None = None
        for index in numbers:
            try:
                return self.poll(index)
            except BadRecording as error:
                failure = failure or error
        assert failure, "there is a poll"
        raise failure

    def index_at(self, moment: Instant) -> int:
        """Return the last poll that was taken by then, the first one where none was."""
        return max(bisect_right(self._index.times, moment) - 1, 0)

    def next_finding(self, index: int, least: Severity = "warning") -> int | None:
        """Return the next poll that found what the one before it did not, of this severity or a worse one.

        That a server was lost is critical. None where nothing more was found.
        """
        return next(
            (i for i in range(index + 1, len(self)) if self._index.news[i] >= rank(least)),
            None,
        )

    def previous_finding(self, index: int, least: Severity = "warning") -> int | None:
        """Return the last poll before ``index`` that found something new, as `next_finding` does."""
        return next((i for i in range(index - 1, -1, -1) if self._index.news[i] >= rank(least)), None)

    def findings(self, least: Severity = "warning") -> list[tuple[int, Severity]]:
        """Return the polls that `next_finding` goes to, each with the worst of what it found new."""
        return [
            (index, SEVERITIES[news - 1])
            for index, news in enumerate(self._index.news)
            if news >= rank(least)
        ]

    def _read(self, index: int) -> bytes:
        starts = self._index.starts
        end = starts[index + 1] if index + 1 < len(starts) else self._index.end
        try:
            self._file.seek(starts[index])
            return self._file.read(end - starts[index])
        except OSError as error:
            raise _unreadable(self.path, error) from None


def _unreadable(path: Path, error: OSError) -> BadRecording:
    return BadRecording(f"{path} cannot be read ({error.strerror}): name a recording that this user may read")

"""Writing a recording, so that whatever ends the writer leaves a good one."""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from pglock_inspect.errors import BadRecording
from pglock_inspect.present.document import report_document
from pglock_inspect.present.json import dump
from pglock_inspect.recording.member import pack, rank
from pglock_inspect.recording.news import news
from pglock_inspect.recording.rest import encoded, rest_of
from pglock_inspect.recording.scan import scan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pglock_inspect.model import Finding, Report, Severity


class Recorder:
    """Writes polls to a file, behind those that it has; without ``queries``, not their text.

    Each poll is written at once and whole: a writer that is killed loses no poll but the one it is at, and
    the next writer goes on where that one began. Raises `BadRecording` for a file that is not there to be
    written to; one that holds something else is left alone.
    """

    def __init__(self, path: Path, *, queries: bool = False) -> None:
        self._path = path
        self._queries = queries
        self._end = 0
        self._found: dict[str, Sequence[Finding]] = {}
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._prepare()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):
            os.fsync(self._file)
        os.close(self._file)

    def write(self, reports: Sequence[Report]) -> None:
        """Add a poll: a report per target. Raises `BadRecording` where it cannot be written."""
        lines = [dump(report_document(report, queries=self._queries)) + "\n" for report in reports]
        rest = encoded([rest_of(report, queries=self._queries) for report in reports])
        worst = max(map(self._news, reports), key=rank)
        self._append(pack("".join(lines).encode(), rest, max(report.taken_at for report in reports), worst))

    def _news(self, report: Report) -> Severity | None:
        """Return the worst of what is found now and was not before; that a server is lost is critical."""
        if report.server is None:
            lost = report.failing_since in {None, report.taken_at}
            return "critical" if lost else None
        new = news(report.findings, self._found.get(report.target, ()))
        self._found[report.target] = report.findings
        return new[0].severity if new else None

    def _prepare(self) -> None:
        """Find where to go on, behind the last whole poll, in a file that nobody else writes to."""
        found = os.fstat(self._file)
        self._linked = found.st_nlink > 0  # some file systems count none
        if not stat.S_ISREG(found.st_mode):
            raise BadRecording(f"{self._path} is not a file: name one that may be written")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadRecording(f"{self._path} is being recorded to: name another file") from None
        except OSError:  # a file system without locks
            pass
        with open(self._file, "rb", closefd=False) as file:
            index = scan(file, os.fstat(self._file).st_size, self._path)
        if index.damaged:
            raise BadRecording(f"{self._path} is damaged at byte {index.end}: record to another file")
        try:
            if index.cut:
                os.ftruncate(self._file, index.end)
        except OSError as error:
            raise self._unwritable(error) from None
        self._end = index.end

    def _append(self, poll: bytes) -> None:
        """Write a poll, or nothing of it."""
        rest = memoryview(poll)
        try:
            there = os.fstat(self._file)
            if there.st_size < self._end or (self._linked and not there.st_nlink):
                raise BadRecording(f"{self._path} was deleted or cut short meanwhile: record anew")
            os.lseek(self._file, self._end, os.SEEK_SET)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise self._unwritable(error) from None
        self._end += len(poll)

    def _unwritable(self, error: OSError) -> BadRecording:
        kept = ": what was recorded before is kept" if self._end else ": choose another place"
        return BadRecording(f"{self._path} cannot be written ({error.strerror}){kept}")

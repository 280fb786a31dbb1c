"""A program on a terminal of its own: what it writes, and when."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import termios
import threading
import time
from typing import TYPE_CHECKING, Self

from benchmarks.exporters import own_environment
from benchmarks.harness import process_cpu

if TYPE_CHECKING:
    from collections.abc import Sequence

_SIZE = (160, 50)
# What a terminal answers at once, and programs wait for: where its cursor is, what it is, how dark it is.
_ANSWERS = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b]11;?\x1b\\": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}
_ESCAPES = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])")
_PATIENCE = 120.0


class Screen:
    """A context manager: a command on a terminal that is read all the time, by a thread.

    Times are those of `time.perf_counter`.
    """

    def __init__(self, command: Sequence[str], *, size: tuple[int, int] = _SIZE) -> None:
        self._command = command
        self._size = struct.pack("HHHH", size[1], size[0], 0, 0)
        self._written = bytearray()
        self._news = threading.Condition()
        self._looked_for = re.compile(b"(?!)")
        self._seen_at: float | None = None
        self._heard_at = 0.0
        self._ended = False

    def __enter__(self) -> Self:
        environment = own_environment() | {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
        self.began = time.perf_counter()
        self.pid, self._terminal = pty.fork()
        if not self.pid:
            fcntl.ioctl(0, termios.TIOCSWINSZ, self._size)
            os.execve(self._command[0], self._command, environment)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended:
            os.kill(self.pid, signal.SIGTERM)
        self._thread.join(5)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._thread.join()
        os.close(self._terminal)

    def write(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def press(self, keys: bytes, text: str, *, quiet: float) -> float:
        """Return the seconds from a key to the end of what it made the program write.

        That is ``text``, and all until nothing more was written for ``quiet`` seconds.
        """
        with self._news:
            self._written.clear()
            self._look_for(text)
            pressed_at = time.perf_counter()
            self.write(keys)
        self.wait_for(None)
        return self._settled(quiet) - pressed_at

    def wait_for(self, text: str | None) -> float:
        """Return when a text (a regular expression) was written; None is the one that is waited for."""
        with self._news:
            if text is not None:
                self._look_for(text)
            found = self._news.wait_for(lambda: self._seen_at or self._ended, _PATIENCE)
            assert found, f"{self._command} does not show {self._looked_for.pattern!r}: {self._end!r}"
            assert self._seen_at, f"{self._command} has ended: {self._end!r}"
            return self._seen_at

    def check(self) -> None:
        """Raise AssertionError where the program has ended."""
        assert not self._ended, f"{self._command} has ended: {self._end!r}"

    def cpu(self) -> float:
        """Return the seconds of CPU that the program has used."""
        return process_cpu(self.pid)

    @property
    def _end(self) -> bytes:
        return self._text[-1000:]

    @property
    def _text(self) -> bytes:
        return _ESCAPES.sub(b" ", self._written)

    def _look_for(self, text: str) -> None:
        self._looked_for, self._seen_at = re.compile(text.encode()), None
        self._look(time.perf_counter())

    def _look(self, now: float) -> None:
        if self._seen_at is None and self._looked_for.search(self._text):
            self._seen_at = now

    def _settled(self, quiet: float) -> float:
        """Return when the last was written before nothing was for a while."""
        while (left := self._heard_at + quiet - time.perf_counter()) > 0:
            time.sleep(left)
        return self._heard_at

    def _read(self) -> None:
        while True:
            try:
                heard = os.read(self._terminal, 65_536)
            except OSError:  # it has ended
                heard = b""
            now = time.perf_counter()
            with self._news:
                self._heard_at = now
                if not heard:
                    self._ended = True
                    self._news.notify_all()
                    return
                for question, answer in _ANSWERS.items():
                    if question in heard:
                        self.write(answer)
                self._written += heard
                self._look(now)
                if self._seen_at is not None:
                    self._written.clear()
                    self._news.notify_all()

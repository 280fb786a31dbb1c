"""The guardian: the process between `run` and its program, which ends the program before the lock is gone.

A process that is stopped or killed ends nobody. So another one starts the program, passes signals on, and
ends the program and all that descends from it when it is told so, when `run` is gone, or when `run` has not
proven for too long that the server still keeps the lock. Until the last of them is gone it has the connection
open, too: else the server would release the lock as soon as `run` is killed.

It runs as a script, in an interpreter of its own that has the standard library alone.
"""

from __future__ import annotations

import math
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROVEN, SIGNAL, END = (
    b"p",
    b"s",
    b"e",
)  # told to the guardian, with a time of `now`, a signal's number, nothing
STARTED, FAILED, ENDED = b"S", b"F", b"E"  # told by it, with the program's pid, an errno, its return code

MESSAGES = (signal.SIGUSR1, signal.SIGUSR2)  # for the program itself; all others are for its process group
FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGTSTP,
    signal.SIGCONT,
    *MESSAGES,
)

_TTY = (signal.SIGTTIN, signal.SIGTTOU)
_STDIO = range(3)
_TICK = 0.1  # seconds between two looks at processes that should end
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # that of `deadline.elapsed`


def now() -> float:
    """Return seconds that also go by while this process is stopped or the machine sleeps."""
    return time.clock_gettime(_CLOCK)


class Channel:
    """Words between `run` and the guardian, each with a number."""

    _word = struct.Struct("=cd")

    def __init__(self, end: socket.socket) -> None:
        self.end = end

    def tell(self, word: bytes, number: float = 0) -> None:
        """Send a word, unless the other side is gone or does not listen; from any thread."""
        with suppress(OSError):
            self.end.send(self._word.pack(word, number), socket.MSG_DONTWAIT)

    def hear(self) -> tuple[bytes, float]:
        """Return the next word. Raises EOFError when the other side is gone."""
        data = b""
        with suppress(ConnectionResetError):
            data = self.end.recv(self._word.size, socket.MSG_WAITALL)
        if len(data) < self._word.size:
            raise EOFError
        word, number = self._word.unpack(data)
        return word, number


class Process(NamedTuple):
    """A row of Linux's process table."""

    pid: int
    group: int
    session: int


def adopt() -> bool:
    """Have orphans among this process's descendants become its children; tell whether that can be had."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1) and Path("/proc/self/stat").exists()


def _prctl(option: int, value: int) -> bool:
    if sys.platform != "linux":
        return False
    try:
        from ctypes import CDLL  # noqa: PLC0415  (not everywhere)
    except ImportError:
        return False
    return bool(CDLL(None).prctl(option, value, 0, 0, 0) == 0)


def descendants() -> Iterator[Process]:
    """Yield the processes that descend from this one and still run."""
    children: dict[int, list[Process]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has just gone
                stat = entry.joinpath("stat").read_bytes()
                state, parent, group, session = stat.rpartition(b")")[2].split()[:4]
                if state not in (b"Z", b"X"):
                    row = Process(int(entry.name), int(group), int(session))
                    children.setdefault(int(parent), []).append(row)
    rows = [Process(os.getpid(), 0, 0)]
    for row in rows:
        rows += children.get(row.pid, [])
    yield from rows[1:]


def still_running(group: int, *, adopts: bool, session: int | None = None) -> list[int]:
    """Return what is left of a program, as `os.kill` takes it: its group as a negative number, and pids.

    Without adoption it is the group alone. Of a session, processes that began one of their own do not count.
    """
    if adopts:
        rows = (row for row in descendants() if session in (None, row.session))
        return sorted({-group if row.group == group else row.pid for row in rows})
    try:
        os.kill(-group, 0)
    except ProcessLookupError:
        return []
    except PermissionError:  # it is there, as another user
        pass
    return [-group]


def send_all(targets: Sequence[int], *signals: signal.Signals) -> None:
    """Send signals to processes and groups, wherever that is allowed."""
    for target in targets:
        for signum in signals:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(target, signum)


def given_environment() -> dict[bytes, bytes]:
    """Return the environment without the LC_CTYPE that Python itself gives to a process in the C locale."""
    environment = dict(os.environb)
    with suppress(OSError):
        given = Path("/proc/self/environ").read_bytes()
        if b"LC_CTYPE=" not in given and environment.get(b"LC_CTYPE", b"").startswith(b"C."):
            del environment[b"LC_CTYPE"]
    return environment


class Guardian:
    """The program's parent. `patience` is seconds of silence, `kill_after` those from SIGTERM to SIGKILL."""

    def __init__(
        self, channel: Channel, connection: socket.socket, launchers: int, patience: float, kill_after: float
    ) -> None:
        self._channel = channel
        self._connection = connection
        self._launchers = launchers  # the process group of `run`
        self._patience = patience
        self._kill_after = kill_after
        self._adopts = adopt()
        self._tty = _open_tty(launchers)
        self._ending = False
        self._kill_at = math.inf
        self._code: int | None = None
        self._wake, wake = os.pipe()
        for end in (self._wake, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def guard(self, command: Sequence[str]) -> None:
        """Start the program, and return when it is gone."""
        word, self._proven = self._channel.hear()
        if word == END:
            return
        try:
            self._program = self._start(command)
        except OSError as error:
            self._channel.tell(FAILED, error.errno or 0)
            return
        self._channel.tell(STARTED, self._program.pid)
        self._let_go_of_stdio()
        while self._lives():
            self._listen()
            if now() >= self._proven + self._patience:
                self._end()
            if now() >= self._kill_at:
                send_all(self._left(), signal.SIGKILL)
        self._take_terminal_back()
        if self._ending:
            with suppress(OSError):  # which releases the lock, even if `run` is stopped
                self._connection.shutdown(socket.SHUT_RDWR)
        self._channel.tell(ENDED, self._code or 0)

    def _start(self, command: Sequence[str]) -> Popen[bytes]:
        guardian = os.getpid()
        ours = [s for s in (*FORWARDED, *_TTY) if signal.getsignal(s) is not signal.SIG_IGN]
        for signum in ours:
            if signum != signal.SIGCONT:
                signal.signal(signum, signal.SIG_IGN)

        def prepare() -> None:
            for signum in ours:
                signal.signal(signum, signal.SIG_DFL)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != guardian:
                os._exit(128 + signal.SIGKILL)

        return Popen(  # noqa: S603
            command,
            process_group=0,
            preexec_fn=prepare,  # noqa: PLW1509  (there is one thread)
            close_fds=False,
            env=given_environment(),
        )

    def _let_go_of_stdio(self) -> None:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in set(_STDIO) - {self._channel.end.fileno(), self._connection.fileno(), self._wake}:
            os.dup2(null, descriptor, inheritable=False)

    def _lives(self) -> bool:
        """Reap; once the program has ended, end what it left behind in its session, as far as it is there."""
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0]:
                if found[0] == self._program.pid:
                    self._note(found[1])
        if self._code is None:
            return True
        left = self._left()
        if left and self._kill_at == math.inf:
            self._kill_at = now() + self._kill_after
            send_all(left, signal.SIGTERM, signal.SIGCONT)
        return bool(left)

    def _note(self, status: int) -> None:
        if os.WIFSTOPPED(status):
            self._stopped(os.WSTOPSIG(status))
        else:
            self._code = self._program.returncode = os.waitstatus_to_exitcode(status)

    def _left(self) -> list[int]:
        session = None if self._ending else os.getsid(0)
        return still_running(self._program.pid, adopts=self._adopts, session=session)

    def _listen(self) -> None:
        busy = self._ending or self._code is not None
        channel = self._channel.end.fileno()
        wanted = [self._wake] if channel < 0 else [self._wake, channel]
        ready, _, _ = select.select(wanted, [], [], _TICK if busy else 1.0)
        if self._wake in ready:
            os.read(self._wake, 1024)
        if channel in ready:
            try:
                word, number = self._channel.hear()
            except EOFError:
                self._channel.end.close()
                word, number = END, 0
            if word == PROVEN:
                self._proven = number
            elif word == SIGNAL:
                self._forward(signal.Signals(int(number)))
            else:
                self._end()

    def _forward(self, signum: signal.Signals) -> None:
        if self._code is None:
            send_all([self._program.pid if signum in MESSAGES else -self._program.pid], signum)

    def _end(self) -> None:
        """End all that descends from the program; by force when there is no more time."""
        if not self._ending:
            self._ending = True
            by = min(now(), self._proven + self._patience) + self._kill_after
            self._kill_at = min(self._kill_at, by)
            send_all(self._left(), signal.SIGTERM, signal.SIGCONT)

    # At a terminal whose shell has jobs, `run` and its program are one of them.

    def _stopped(self, signum: int) -> None:
        if self._tty is None or signum == signal.SIGSTOP or self._ending:
            return
        with suppress(OSError):  # the terminal has gone
            if signum in _TTY and os.tcgetpgrp(self._tty) == self._launchers:
                os.tcsetpgrp(self._tty, self._program.pid)
                send_all([-self._program.pid], signal.SIGCONT)
                return
            self._take_terminal_back()
            left = max(0, self._proven + self._patience - now())
            os.write(
                self._tty, b"pglock-inspect: stopped, and will be ended in %.0f s, as the lock is\n" % left
            )
            send_all([-self._launchers], signal.SIGSTOP)

    def _take_terminal_back(self) -> None:
        if self._tty is not None:
            with suppress(OSError):
                if os.tcgetpgrp(self._tty) == self._program.pid:
                    os.tcsetpgrp(self._tty, self._launchers)


def _open_tty(launchers: int) -> int | None:
    if launchers in (0, 1, os.getsid(0)):  # nobody would continue what is stopped
        return None
    try:
        return os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return None


def main(
    channel: str, connection: str, launchers: str, patience: str, kill_after: str, *command: str
) -> None:
    """Guard a program: descriptors of the channel and the connection, a process group, and seconds."""
    for descriptor in (channel, connection):
        os.set_inheritable(int(descriptor), False)  # noqa: FBT003
    ends = socket.socket(fileno=int(channel)), socket.socket(fileno=int(connection))
    guardian = Guardian(Channel(ends[0]), ends[1], int(launchers), float(patience), float(kill_after))
    guardian.guard(command)


if __name__ == "__main__":
    main(*sys.argv[1:])

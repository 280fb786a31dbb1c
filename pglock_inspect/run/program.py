"""The program under a lock, as `run` has it: in the hands of a guardian."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pglock_inspect.lock import Lock
from pglock_inspect.run import guardian
from pglock_inspect.run.guardian import ENDED, FAILED, FORWARDED, PROVEN, SIGNAL, Channel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

_BEFORE = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_TICK = 0.2  # seconds between two looks for what the guardian has to be told


class Interrupted(KeyboardInterrupt):
    """A signal that came before the program was started."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.strsignal(signum))
        self.signum = signum


class WatchedLock(Lock):
    """A lock whose connection somebody else can keep open."""

    @property
    def socket(self) -> int:
        """The connection's descriptor."""
        return int(self._connection.pgconn.socket)


class Program:
    """A program that runs while a lock is held.

    It is ended when nothing has proven the lock for `patience` seconds: by SIGTERM, and SIGKILL `kill_after`
    seconds later; at once if its guardian is killed.
    """

    def __init__(self, command: Sequence[str], *, patience: float, kill_after: float) -> None:
        self.command = command
        self.started = False
        self.guarded = True
        self._proven_at = 0.0
        self._times = patience, kill_after
        self._to_be_gone = float("inf")
        ours, theirs = socket.socketpair()
        self._channel, self._theirs = Channel(ours), theirs

    def end(self) -> None:
        """End it, if it runs."""
        self._to_be_gone = min(self._to_be_gone, guardian.now() + sum(self._times))
        self._channel.tell(guardian.END)

    def run(self, lock: WatchedLock) -> int:
        """Run it, and return its return code once all of it is gone.

        Raises OSError, with nothing left running, where it cannot be started. From now on, signals are its.
        """
        adopts = guardian.adopt()
        self._tell_proven(lock)
        self.started = True
        handle_signals(lambda signum, _: self._channel.tell(SIGNAL, signum), FORWARDED)
        try:
            watcher = self._start(lock.socket)
            try:
                return self._watch(watcher, lock, adopts=adopts)
            finally:
                self._channel.end.close()
                watcher.wait()
        finally:
            self._channel.end.close()

    def _watch(self, watcher: subprocess.Popen[bytes], lock: Lock, *, adopts: bool) -> int:
        group = None
        while True:
            if select.select([self._channel.end], [], [], _TICK)[0]:
                try:
                    word, number = self._channel.hear()
                except EOFError:
                    self.guarded = False
                    watcher.wait()
                    _kill(group, adopts=adopts)
                    return -signal.SIGKILL
                if word == ENDED:
                    return int(number)
                if word == FAILED:
                    raise OSError(int(number), os.strerror(int(number)), self.command[0])
                group = int(number)
            self._tell_proven(lock)
            _reap_adopted(watcher.pid)
            if guardian.now() > self._to_be_gone:
                watcher.kill()

    def _tell_proven(self, lock: Lock) -> None:
        if lock.proven_at != self._proven_at:
            self._proven_at = lock.proven_at
            self._channel.tell(PROVEN, self._proven_at)

    def _start(self, connection: int) -> subprocess.Popen[bytes]:
        """Start the guardian; what else was left open for this process is open for the program, too."""
        descriptors = self._theirs.fileno(), os.dup(connection)
        for descriptor in descriptors:
            os.set_inheritable(descriptor, True)  # noqa: FBT003
        try:
            return subprocess.Popen(  # noqa: S603
                [
                    *(sys.executable, "-I", guardian.__file__),
                    *map(str, (*descriptors, os.getpgrp(), *self._times)),
                    *self.command,
                ],
                close_fds=False,
                process_group=0,
                env=guardian.given_environment(),
            )
        finally:
            self._theirs.close()
            os.close(descriptors[1])


def interrupt_by_signals() -> None:
    """Have signals that would end this process raise `Interrupted`, so that it ends in good order."""

    def interrupt(signum: int, _: FrameType | None) -> None:
        raise Interrupted(signum)

    handle_signals(interrupt, _BEFORE)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever ignores it never learns how a child ended


def handle_signals(
    handler: Callable[[int, FrameType | None], None], signals: Sequence[signal.Signals]
) -> None:
    """Handle those that this process was not started to ignore, as by `nohup`."""
    for signum in signals:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, handler)


def _reap_adopted(watcher: int) -> None:
    """Reap orphans that became this process's children, as they do where it is the first of a container."""
    with suppress(ChildProcessError):
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid == watcher:
                return
            os.waitpid(found.si_pid, 0)


def _kill(group: int | None, *, adopts: bool) -> None:
    """End, in the place of a guardian that is dead, what it has left."""
    if group is None:
        return
    while left := guardian.still_running(group, adopts=adopts):
        guardian.send_all(left, signal.SIGKILL)
        time.sleep(0.05)
        _reap_adopted(0)

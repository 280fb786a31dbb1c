"""`pglock-inspect run` as a process that a test can look into."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

import psutil

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

    from tests.support.command import Pglock

HURRIED = """
import sys
from pglock_inspect import run
from pglock_inspect.lock import base
base.BEAT, base.DEADLINE, run.SLACK, base.LEASE = 0.5, 0.5, 2.0, 5.0
from pglock_inspect.__main__ import main
sys.exit(main())
"""
"""A program: the command, for which silence is a loss after 3 s, and a lease lasts 5."""

IDLE = "trap 'exit 9' TERM; echo started; while :; do sleep 0.05; done"
STUBBORN = "trap '' TERM; echo started; while :; do sleep 0.05; done"
"""Shell scripts that end when they are told to, and that do not."""

UNTIL_GO = "echo started; until [ -e go ]; do sleep 0.05; done"
"""A shell script that ends when there is a file of that name."""


class Running:
    """A run whose program has written a line; `family` are the guardian, the program and its children."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid
        assert process.stdout
        assert process.stderr
        self.stdout: IO[str] = process.stdout
        self.stderr: IO[str] = process.stderr

    def start(self) -> None:
        """Wait for the program's first line."""
        assert self.stdout.readline() == "started\n", self.stderr.read()
        (self.guardian,) = psutil.Process(self.pid).children()
        leaders = (child for child in self.guardian.children() if os.getpgid(child.pid) == child.pid)
        self.program = min(leaders, key=psutil.Process.create_time)

    def send(self, signum: signal.Signals) -> None:
        self._process.send_signal(signum)

    def wait(self) -> int:
        """Return the exit code."""
        return self._process.wait(30)

    @property
    def family(self) -> list[psutil.Process]:
        return [self.guardian, *self.guardian.children(recursive=True)]


@contextmanager
def running(pglock: Pglock, *arguments: str, **variables: str) -> Iterator[Running]:
    """Run a command, fast; whatever is left of it after the block is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HURRIED, "run", *arguments],
        cwd=pglock.directory,
        env=pglock.environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    ) as process:
        run = Running(process)
        try:
            run.start()
            yield run
        finally:
            with suppress(psutil.NoSuchProcess):
                for each in psutil.Process(process.pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
            process.kill()


def gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # since a moment ago
        return True


def wait_for_end(processes: list[psutil.Process]) -> None:
    wait_until(lambda: all(map(gone, processes)), "all are gone")

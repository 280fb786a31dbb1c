"""What a program that starts servers leaves behind, known by a mark in its processes and directories."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import psutil

from tests.support.waiting import wait_until

MARKED = """
import sys
from pglock_inspect.demo import server
server._REAPER = server._REAPER.replace("XXXXXX", sys.argv.pop(1) + "-XXXXXX")
from pglock_inspect.__main__ import main
sys.exit(main())
"""
"""A program: the command, whose first argument is a mark."""


def directories(mark: str) -> list[Path]:
    place = Path("/tmp" if os.geteuid() == 0 else os.environ.get("TMPDIR", "/tmp"))
    return list(place.glob(f"pglock-inspect-{mark}-*"))


def processes(mark: str) -> list[psutil.Process]:
    """Return those with the mark on their command line, or in a marked directory, as backends are."""
    return [process for process in psutil.process_iter() if mark in _description(process)]


def wait_for_nothing_left(mark: str) -> None:
    wait_until(lambda: not processes(mark), "the processes are gone")
    wait_until(lambda: not directories(mark), "the directory is gone", timeout=0.1)


def _description(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        return " ".join([*process.cmdline(), process.cwd()])
    return ""

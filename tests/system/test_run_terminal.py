"""A program under a lock at a terminal, as a job of a shell."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.support.command import COMMAND
from tests.support.running import HURRIED
from tests.support.tmux import terminal
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.command import Pglock
    from tests.support.servers import Connection
    from tests.support.tmux import Terminal

pytestmark = pytest.mark.requires("tmux")
HELD = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
READ = "sh -c 'echo ready; read line; echo got:$line'"


@pytest.fixture
def shell(pglock: Pglock) -> Iterator[Terminal]:
    """A shell with job control, in which `./under-lock` is `run`, `./fast` the same with short times."""
    for name, command in (("under-lock", COMMAND), ("fast", [sys.executable, "-c", HURRIED])):
        script = pglock.directory / name
        call = shlex.join([*command, "run", "digest", "--kill-after", "1s", "--"])
        script.write_text(f'#!/bin/sh\nexec {call} "$@"\n')
        script.chmod(0o755)
    environment = pglock.environment(TERM="tmux", PS1="$ ", HISTFILE="")
    with terminal(
        ["bash", "--norc", "--noprofile", "-i"], pglock.directory, environment, size=(100, 40)
    ) as here:
        here.wait_for("$")
        yield here


def enter(shell: Terminal, line: str) -> None:
    shell.press(line, "Enter")


def stop(shell: Terminal) -> None:
    """Press Ctrl-Z, and again as a person does: what is just being continued forgets it, by SIGCONT."""

    def is_stopped() -> bool:
        if "]+  Stopped" not in shell.text:
            shell.press("C-z")
            with suppress(AssertionError):
                wait_until(lambda: "]+  Stopped" in shell.text, "it stops", timeout=2)
        return "]+  Stopped" in shell.text

    wait_until(is_stopped, "it is stopped", timeout=20)


def ask_code(shell: Terminal) -> str:
    """Return the exit code that the shell knows of."""
    enter(shell, 'echo "code=$?."')
    wait_until(lambda: any(line.startswith("code=") for line in shell.lines), "the shell answers")
    return next(line for line in shell.lines if line.startswith("code="))


def test_a_program_reads_from_the_terminal(shell: Terminal) -> None:
    enter(shell, f"./under-lock {READ}")
    shell.wait_for("\nready")
    enter(shell, "hello")
    shell.wait_for("\ngot:hello")
    assert ask_code(shell) == "code=0."


def test_another_part_of_the_pipe_may_read_from_it(shell: Terminal) -> None:
    enter(shell, "./under-lock echo ready | sh -c 'cat; read line </dev/tty; echo got:$line'")
    shell.wait_for("\nready")
    enter(shell, "hello")
    shell.wait_for("\ngot:hello")
    assert ask_code(shell) == "code=0."


@pytest.mark.parametrize("program", ["sh -c 'echo ready; exec sleep 60'", READ], ids=["at work", "reading"])
def test_ctrl_c(shell: Terminal, program: str) -> None:
    enter(shell, f"./under-lock {program}")
    shell.wait_for("\nready")
    shell.press("C-c")
    assert ask_code(shell) == "code=130."


@pytest.mark.parametrize("program", ["sh -c 'echo ready; sleep 1; read line; echo got:$line'", READ])
def test_ctrl_z_and_fg(shell: Terminal, janitor: Connection, program: str) -> None:
    enter(shell, f"./under-lock {program}")
    shell.wait_for("\nready")
    for _ in range(2):
        stop(shell)
        shell.wait_for("pglock-inspect: stopped, and will be ended in 1")
        shell.wait_for("]+  Stopped")
        assert janitor.execute(HELD).fetchone() == (2,)
        shell.press("clear", "Enter")
        wait_until(lambda: "Stopped" not in shell.text, "the screen is clear")
        enter(shell, "fg")
        shell.wait_for("under-lock")
    enter(shell, "hello")
    shell.wait_for("\ngot:hello")
    assert ask_code(shell) == "code=0."


def test_what_is_stopped_for_too_long_is_ended(shell: Terminal, janitor: Connection) -> None:
    enter(shell, "./fast sh -c 'echo ready; exec sleep 60'")
    shell.wait_for("\nready")
    shell.press("C-z")
    shell.wait_for("]+  Stopped")
    wait_until(lambda: janitor.execute(HELD).fetchone() == (0,), "the lock is free")
    enter(shell, "fg")
    shell.wait_for("lost its lock while it ran, and was ended")
    assert ask_code(shell) == "code=76."


def test_in_the_background_it_stops_when_it_wants_to_read(shell: Terminal) -> None:
    enter(shell, f"./under-lock {READ} &")
    shell.wait_for("$ ready")
    shell.wait_for("pglock-inspect: stopped")
    while "]+  Stopped" not in shell.text:
        shell.press("Enter")
    enter(shell, "fg")
    shell.wait_for("fg\n./under-lock")
    enter(shell, "hello")
    shell.wait_for("\ngot:hello")
    assert ask_code(shell) == "code=0."

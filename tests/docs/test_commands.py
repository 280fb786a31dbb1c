"""Every command of the documentation runs, and prints what stands below it."""

from __future__ import annotations

import os
import pty
import re
import shlex
import signal
from collections import Counter
from contextlib import contextmanager
from itertools import zip_longest
from operator import itemgetter
from typing import TYPE_CHECKING

import pytest

from tests.docs.stage import shell
from tests.support.pages import PAGES, ROOT, blocks, commands
from tests.support.requirements import program
from tests.support.tmux import terminal
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.docs.stage import Stage

# What these do is tested elsewhere: by CI, in containers, by Prometheus' own tools, with the examples.
ELSEWHERE = ("make", "docker", "kubectl", "curl", "{", "export", "psql", "pglock-inspect demo")
CODES = {"check": (0, 1, 2), "doctor": (0, 1, 2), "kill": (0, 1), "run": (0, 75)}


def told() -> Iterator[tuple[str, str, str]]:
    """Yield each command: its page, the line, and what stands below it as its output."""
    for page in PAGES:
        found = blocks(page)
        for block, following in zip_longest(found, found[1:]):
            if block.language != "sh":
                continue
            lines = [line for line in commands(block.text) if not line.startswith(ELSEWHERE)]
            output = following.text if following and not following.language and len(lines) == 1 else ""
            for line in lines:
                yield str(page.relative_to(ROOT)), re.split(r"\s+# ", line)[0], output


# Once each, with its output if it has one anywhere.
COMMANDS = list(
    {line: (page, line, output) for page, line, output in sorted(told(), key=itemgetter(2))}.values()
)
TOP = [command for command in COMMANDS if command[1].startswith("pglock-inspect top")]
ENDLESS = [
    command
    for command in COMMANDS
    if command[1].startswith("pglock-inspect serve")
    or ("--watch" in command[1] and "--replay" not in command[1])
    or (command[1].startswith("pglock-inspect record") and "--for" not in command[1])
]
OTHERS = [command for command in COMMANDS if command not in TOP + ENDLESS]


@contextmanager
def answering(text: str) -> Iterator[int]:
    """A terminal in which somebody types a text."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, text.encode())
        yield theirs
    finally:
        os.close(ours)
        os.close(theirs)


def shape(text: str) -> Counter[str]:
    """Return the words, whatever the numbers, the times and the line breaks."""
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", text)
    text = re.sub(r"[\d.]+ (?:ms|s|min|h)\b( \d+ (?:s|min)\b)?", "SPAN", text)
    text = re.sub(r"\d+(?:\.\d+)*(?::\d+)?", "N", text)
    text = re.sub(r"[━─╸▶]+", "BAR", text)
    return Counter(text.split())


@pytest.mark.parametrize(("page", "line", "output"), OTHERS)
def test_a_command_runs_and_prints_what_the_page_shows(
    stage: Stage, page: str, line: str, output: str
) -> None:
    if "| jq" in line:
        program("jq")
    with answering("y\n") as stdin, shell(stage, stage.put_in(line), stdin) as process:
        stdout, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stderr
    assert process.returncode in CODES.get(line.split()[1], (0,)), f"{page}: {stderr}{stdout}"
    missing = shape(output) - shape(stdout)
    assert not missing, stdout


@pytest.mark.parametrize(("page", "line", "output"), ENDLESS)
def test_a_command_goes_on_until_it_is_interrupted(stage: Stage, page: str, line: str, output: str) -> None:
    recording = stage.directory / "night.rec"
    before = recording.stat().st_size
    with shell(stage, "exec " + stage.put_in(line)) as process:
        assert process.stdout
        assert process.stderr
        if line.split()[1] == "record":
            wait_until(lambda: recording.stat().st_size > before, "a poll is recorded")
        else:
            talks = process.stderr if line.split()[1] == "serve" else process.stdout
            assert talks.readline(), f"{page}: {process.stderr.read()}"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode in {0, 130}
    assert not output


@pytest.mark.parametrize(("page", "line", "output"), TOP)
def test_top_shows_the_locks(stage: Stage, tmp_path: Path, page: str, line: str, output: str) -> None:
    assert page
    assert not output
    line = stage.put_in(line).replace("night.rec", f"{stage.directory}/night.rec")
    with terminal(shlex.split(line), tmp_path, stage.environment()) as screen:
        screen.wait_for("golang-migrate migrations")
        screen.press("q")


def test_there_are_commands_of_every_kind() -> None:
    kinds = {line.split()[1] for _, line, _ in COMMANDS}
    assert {
        "top",
        "ls",
        "check",
        "why",
        "kill",
        "run",
        "serve",
        "record",
        "doctor",
        "key",
        "identify",
        "init",
    } <= kinds
    assert any(output for *_, output in OTHERS)

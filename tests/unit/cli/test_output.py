from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import sys
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pglock_inspect.cli import output
from pglock_inspect.present.glyphs import ASCII, UNICODE

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """stdout is a terminal of 100 columns."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("4H", 30, 100, 0, 0))
    with (
        os.fdopen(follower, "w", encoding="utf-8") as stdout,
        os.fdopen(leader),
        monkeypatch.context() as patch,
    ):
        patch.setattr(sys, "stdout", stdout)
        yield


@pytest.mark.parametrize(
    ("environ", "color", "clears", "width"),
    [
        ({"TERM": "xterm"}, True, True, 100),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False, True, 100),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True, 100),
        ({"TERM": "dumb"}, False, False, 100),
        ({}, False, False, 100),
        ({"TERM": "xterm", "COLUMNS": "40"}, True, True, 40),
        ({"TERM": "xterm", "COLUMNS": "3"}, True, True, 20),
        *(
            ({"TERM": "xterm", "COLUMNS": odd}, True, True, 100)
            for odd in ("wide", "-5", "0", "²", "9" * 5000)
        ),
    ],
)
def test_a_terminal(
    environ: dict[str, str],
    color: bool,  # noqa: FBT001
    clears: bool,  # noqa: FBT001
    width: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with terminal(monkeypatch):
        paper = output.stdout_paper({"LANG": "en_US.UTF-8"} | environ)
    assert (paper.color, paper.clears, paper.width) == (color, clears, width)
    assert paper.look.glyphs == UNICODE


@pytest.mark.parametrize(
    ("environ", "color", "width"),
    [
        ({"TERM": "xterm"}, False, None),
        ({"COLUMNS": "40"}, False, 40),
        ({"FORCE_COLOR": "1"}, True, None),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, None),
    ],
)
def test_a_pipe(
    environ: dict[str, str],
    color: bool,  # noqa: FBT001
    width: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    paper = output.stdout_paper(environ)
    assert (paper.color, paper.clears, paper.width) == (color, False, width)
    assert (paper.look.glyphs, paper.look.encoding) == (ASCII, "iso8859-1")


def test_a_closed_stdout_takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    output.prepare()
    output.write("text")
    assert output.stdout_paper({}).width is None


def test_nothing_is_written_for_no_data(capsys: pytest.CaptureFixture[str]) -> None:
    output.write("")
    assert capsys.readouterr().out == ""


def test_talk_is_inert(capsys: pytest.CaptureFixture[str]) -> None:
    output.talk("two\nlines \x1b[31m")
    assert capsys.readouterr().err == "pglock-inspect: two\\nlines \\x1b[31m\n"

"""stdout is data, stderr is talk; neither ever fails on a character or shows a control character."""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from pglock_inspect.errors import PglockInspectError
from pglock_inspect.present.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pglock_inspect.present.paper import Paper

PROGRAM = "pglock-inspect"

_LEAST_WIDTH = 20


class OutputFailed(PglockInspectError):
    """What should be shown cannot be written."""


def prepare() -> None:
    """Let both streams write what their encoding lacks as an escape instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a closed one is None
            stream.reconfigure(errors="backslashreplace")


def write(text: str | bytes) -> None:
    """Write data to stdout, at once; nothing for no data. Bytes go as they are, whatever the locale."""
    if text:
        click.echo(text, color=True, nl=False)
        click.echo()  # an unbuffered stdout tells of a closed pipe with the next write only


@contextmanager
def writing() -> Iterator[None]:
    """Raise `OutputFailed` where stdout takes no more, or `BrokenPipeError` where nobody reads it."""
    try:
        yield
    except BrokenPipeError:
        _abandon_stdout()
        raise
    except OSError as error:
        if error.filename is not None or sys.stdout is None:  # it is some other file's
            raise
        _abandon_stdout()
        raise OutputFailed(f"the output cannot be written: {error.strerror}") from None


def talk(message: str) -> None:
    """Say one sentence to the person, on stderr."""
    with suppress(OSError):  # nobody is there to hear it
        click.echo(f"{PROGRAM}: {printable(message)}", err=True)


def _abandon_stdout() -> None:
    """Keep the interpreter from trying once more, when it ends, to write what could not be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stdout_paper(environ: Mapping[str, str] = os.environ) -> Paper:
    """Return what stdout is to a presenter: a terminal's width and colors, or endless plain lines."""
    from pglock_inspect.present.look import look_of  # noqa: PLC0415
    from pglock_inspect.present.paper import Paper  # noqa: PLC0415  (a check draws nothing)

    stdout = sys.stdout
    terminal = stdout is not None and stdout.isatty()
    clever = terminal and environ.get("TERM", "dumb") not in {"", "dumb", "unknown"}
    return Paper(
        look=look_of(stdout.encoding if stdout else "utf-8", environ),
        width=_width(terminal=terminal, environ=environ),
        color=(clever or bool(environ.get("FORCE_COLOR"))) and not environ.get("NO_COLOR"),
        clears=clever,
    )


def _width(*, terminal: bool, environ: Mapping[str, str]) -> int | None:
    columns = environ.get("COLUMNS", "")
    if re.fullmatch("[1-9][0-9]{0,4}", columns):
        return max(int(columns), _LEAST_WIDTH)
    if not terminal:
        return None
    return max(os.get_terminal_size(sys.stdout.fileno()).columns or 80, _LEAST_WIDTH)

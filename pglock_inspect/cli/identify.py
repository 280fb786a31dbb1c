"""``identify``: who and what a key is that a log line, a deadlock report or ``pg_locks`` shows."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

import click
from typer import Argument, Option

from pglock_inspect.cli.access import settings_of, sources_of, watcher_of
from pglock_inspect.cli.commands import DashedArguments, command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.options import Access, connection_options
from pglock_inspect.cli.output import stdout_paper, talk, write
from pglock_inspect.names.mentions import mentions
from pglock_inspect.present import why as present
from pglock_inspect.present.identity import identify as identities

_ADDRESSES = ("PGLOCK_DSN", "DATABASE_URL", "PGHOST", "PGHOSTADDR", "PGSERVICE")
_LONGEST_INPUT = 10_000_000

app = command_app()


@app.command(cls=DashedArguments, short_help="Tell which lock a log line or a key means.")
@connection_options
def identify(
    access: Access,
    *,
    texts: Annotated[list[str] | None, Argument(metavar="[TEXT...]", show_default=False)] = None,
    format_name: Annotated[Literal["text", "json"], Option("--format")] = "text",
) -> ExitCode:
    """Tell which lock TEXT means: its name, its key in every form, and who holds it now.

    TEXT is a bigint, a pair A,B, classid/objid/objsubid, or what PostgreSQL logs: a line with
    "advisory lock [16391,0,42,1]", or a whole deadlock report; without TEXT, or with -, it comes from stdin.
    A server is asked where one is given.
    """
    settings = settings_of(access)
    mentioned = [mention for text in _texts(texts or ["-"]) for mention in mentions(text)]
    source = sources_of(access, settings)[0]
    report = None
    code = ExitCode.OK
    if access.dsn is not None or access.targets or any(os.environ.get(name) for name in _ADDRESSES):
        with watcher_of(source, settings) as watcher:
            report = watcher.poll()
        if report.error is not None:
            talk(report.error)
            code = ExitCode.UNKNOWN
            report = None
    else:
        talk("no server was asked: --dsn tells who holds it now, and what its database is called")
    told = [(report.target if report else "", identities(mentioned, settings.jobs, report))]
    write(present.as_json(told) if format_name == "json" else present.as_text(told, stdout_paper()))
    return code


def _texts(arguments: list[str]) -> list[str]:
    """Return the texts, with stdin for ``-``; words that make one log line may come unquoted."""
    joined = " ".join(arguments)
    if "[" in joined and len(arguments) > 1:
        return [joined]
    return [_stdin() if argument == "-" else argument for argument in arguments]


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("give a key or a log line, or pipe one in")
    return sys.stdin.buffer.read(_LONGEST_INPUT).decode("utf-8", "backslashreplace")

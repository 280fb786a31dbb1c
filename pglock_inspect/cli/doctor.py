"""``doctor``: examines the server and the way to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from pglock_inspect.cli.access import settings_of, sources_of, watcher_of
from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.options import Access, connection_options
from pglock_inspect.cli.output import stdout_paper, talk, write
from pglock_inspect.doctor import Case, examine
from pglock_inspect.errors import ServerFailure
from pglock_inspect.postgres.examine import measure
from pglock_inspect.present import checkup
from pglock_inspect.present.verdict import worst

if TYPE_CHECKING:
    from pglock_inspect.cli.access import Source
    from pglock_inspect.config import Settings

app = command_app()


@app.command(short_help="Examine the server, the way to it and the role.")
@connection_options
def doctor(
    access: Access, *, format_name: Annotated[Literal["text", "json"], Option("--format")] = "text"
) -> ExitCode:
    """Examine what locks rest on: poolers and time-outs in the way, rights, room, clocks, the server itself.

    Two sessions try for a moment whether advisory locks exclude, with a random key.

    Exit code: 0 OK, 1 warning, 2 failure (also when nobody gets a lock or a connection any more),
    3 could not look.
    """
    settings = settings_of(access)
    checkups = [_examined(source, settings) for source in sources_of(access, settings)]
    write(checkup.as_json(checkups) if format_name == "json" else checkup.as_text(checkups, stdout_paper()))
    for one in checkups:
        if one.failure:
            talk(str(one.failure))
    return ExitCode(worst(one.status for one in checkups))


def _examined(source: Source, settings: Settings) -> checkup.CheckUp:
    with watcher_of(source, settings) as watcher:
        try:
            measured = measure(source.dsn)
        except ServerFailure as failure:
            return checkup.CheckUp(watcher.target, failure=failure)
        case = Case(measured, watcher.poll())
        return checkup.CheckUp(watcher.target, examine(case))

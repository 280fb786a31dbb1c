"""``init``: files to start from."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from typer import Option

from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.output import talk, write
from pglock_inspect.errors import PglockInspectError


class _File(NamedTuple):
    written_as: str
    model: str  # in `data`
    purpose: str


# By what --print calls them.
FileName = Literal["config", "alerts", "grants"]
_FILES: dict[FileName, _File] = {
    "config": _File(
        "pglock-inspect.toml", "pglock-inspect.toml", "a configuration with every setting explained"
    ),
    "alerts": _File("pglock-inspect-alerts.yml", "alerts.yml", "alert rules for Prometheus"),
    "grants": _File("pglock-inspect-role.sql", "role.sql", "SQL that makes a role for watching"),
}


app = command_app()


class CannotWrite(PglockInspectError):
    """A file that is there already, or a directory that takes none."""


@app.command(short_help="Write a configuration, alert rules and the SQL for a role.")
def init(
    *,
    directory: Annotated[
        Path, Option("--directory", "-C", metavar="DIR", show_default=False, help="Where to write [here].")
    ] = Path(),
    force: Annotated[bool, Option("--force", help="Overwrite files that are there.")] = False,
    printed: Annotated[
        FileName | None, Option("--print", help="Print one of them to stdout instead.")
    ] = None,
) -> ExitCode:
    """Write files to start from: a commented configuration, Prometheus alert rules, the SQL for a role.

    Nothing is written where one of them exists, unless with --force.
    """
    if printed:
        write(_model(printed).rstrip("\n"))
        return ExitCode.OK
    paths = {name: directory / _FILES[name].written_as for name in _FILES}
    there = [str(path) for path in paths.values() if os.path.lexists(path)]
    if there and not force:
        raise CannotWrite(f"already there: {', '.join(there)}; nothing was written, --force overwrites")
    for name, path in paths.items():
        _write(path, _model(name), force=force)
        talk(f"wrote {path}: {_FILES[name].purpose}")
    return ExitCode.OK


def _model(name: FileName) -> str:
    from importlib.resources import files  # noqa: PLC0415

    return files("pglock_inspect").joinpath("data", _FILES[name].model).read_text(encoding="utf-8")


def _write(path: Path, text: str, *, force: bool) -> None:
    """Write a file at once or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        if force:
            draft.replace(path)
        else:
            path.hardlink_to(draft)  # a rename would overwrite what somebody made meanwhile
    except OSError as error:
        raise CannotWrite(
            f"{path} cannot be written ({error.strerror}): name another directory with -C"
        ) from None
    finally:
        with suppress(OSError):
            draft.unlink()

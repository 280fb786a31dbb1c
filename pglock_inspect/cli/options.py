"""Options that commands share."""

from __future__ import annotations

import os
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from pglock_inspect.durations import format_duration, parse_duration
from pglock_inspect.errors import InvalidDuration, PglockInspectError

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_INTERVAL = 0.1
"""Seconds between two polls; shorter ones tell no more and cost the server."""


class Access(NamedTuple):
    """Which servers to look at, and by whose configuration: what the flags say, before all else."""

    dsn: str | None = None
    config: Path | None = None
    targets: tuple[str, ...] = ()


class Duration(click.ParamType[float]):
    """A duration with its unit, of at least ``least`` seconds; seconds in the program."""

    name = "duration"

    def __init__(self, least: float = 0.0) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return seconds."""
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(value)
        except InvalidDuration as error:
            self.fail(str(error), param, ctx)
        if seconds < self.least:
            self.fail(f"{value!r} is too short: write at least {format_duration(self.least)}", param, ctx)
        return seconds


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--dsn``, ``--config`` and ``--target``, before or after its name, as ``access``."""

    @wraps(command)
    def with_access(
        *args: Any,  # noqa: ANN401
        dsn: str | None,
        config: Path | None,
        target: tuple[str, ...],
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        return command(*args, access=Access(dsn, config, target), **options)

    for option in reversed(_CONNECTION):
        with_access = option(with_access)
    return with_access


def configured(kind: Literal["jobs", "targets"]) -> Callable[..., list[str]]:
    """Return what completes the names that are configured, in a shell."""

    def complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        from pglock_inspect.config import load_settings  # noqa: PLC0415

        config = ctx.params.get("config") or ctx.find_root().params.get("config")
        try:
            settings = load_settings(config=config, environ=os.environ, cwd=Path.cwd())
        except PglockInspectError:  # the command itself will say what is wrong
            return []
        return [entry.name for entry in getattr(settings, kind) if entry.name.startswith(incomplete)]

    return complete


def _from_before(ctx: click.Context, param: click.Parameter, value: Any) -> Any:  # noqa: ANN401
    assert param.name
    return value or ctx.find_root().params.get(param.name) or value


_CONNECTION = (
    click.option(
        "--dsn",
        metavar="DSN",
        callback=_from_before,
        help="Where to connect [$PGLOCK_DSN, $DATABASE_URL, $PG*].",
    ),
    click.option(
        "--target",
        metavar="NAME",
        multiple=True,
        callback=_from_before,
        shell_complete=configured("targets"),
        help="Or a configured cluster; `all` for each. Repeatable.",
    ),
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(path_type=Path),
        callback=_from_before,
        help="The configuration [$PGLOCK_CONFIG].",
    ),
)

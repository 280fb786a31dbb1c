"""Options that commands share."""

from __future__ import annotations

import math
import os
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import click
from typer import CallbackParam, Context, Option

from pglock_inspect.durations import format_duration, parse_duration
from pglock_inspect.errors import InvalidDuration, PglockInspectError

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST_INTERVAL = 0.1
"""Seconds between two polls; shorter ones tell no more and cost the server."""

LONGEST_INTERVAL = 86_400.0
"""Seconds; who is content with more needs no second poll."""


class Access(NamedTuple):
    """Which servers to look at, and by whose configuration: what the flags say, before all else."""

    dsn: str | None = None
    config: Path | None = None
    targets: tuple[str, ...] = ()


class Duration(click.ParamType[float]):
    """A duration with its unit, of ``least`` to ``most`` seconds; seconds in the program."""

    name = "duration"

    def __init__(self, least: float = 0.0, most: float = math.inf) -> None:
        self.least = least
        self.most = most

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
        if seconds > self.most:
            self.fail(f"{value!r} is too long: write at most {format_duration(self.most)}", param, ctx)
        return seconds


def several(*names: str, **settings: Any) -> Any:  # noqa: ANN401 - as Typer's own
    """Return an option that may be repeated, for a parameter of type ``list[str]``; none at first."""
    return Option(*names, default_factory=list, show_default=False, **settings)


def several_jobs(name: str, *, help: str) -> Any:  # noqa: A002, ANN401 - as Typer's own
    """Return an option that takes the name of a job, and may be repeated."""
    return several(name, metavar="NAME", autocompletion=configured("jobs"), help=help)


def configured(kind: Literal["jobs", "targets"]) -> Callable[..., list[str]]:
    """Return what completes the names that are configured, in a shell."""

    def complete(ctx: Context, incomplete: str) -> list[str]:
        from pglock_inspect.config import load_settings  # noqa: PLC0415

        config = ctx.params.get("config") or ctx.find_root().params.get("config")
        try:
            settings = load_settings(config=config, environ=os.environ, cwd=Path.cwd())
        except PglockInspectError:  # the command itself will say what is wrong
            return []
        return [entry.name for entry in getattr(settings, kind) if entry.name.startswith(incomplete)]

    return complete


def _from_before(ctx: Context, param: CallbackParam, value: Any) -> Any:  # noqa: ANN401
    """Return what stands after the command, else what stands before it."""
    assert param.name
    return value or ctx.find_root().params.get(param.name) or value


def _connection(
    *,
    dsn: Annotated[
        str | None,
        Option(
            metavar="DSN",
            callback=_from_before,
            help="Where to connect [$PGLOCK_DSN, $DATABASE_URL, $PG*].",
        ),
    ] = None,
    target: Annotated[
        list[str],
        several(
            "--target",
            metavar="NAME",
            callback=_from_before,
            autocompletion=configured("targets"),
            help="Or a configured cluster; `all` for each. Repeatable.",
        ),
    ],
    config: Annotated[
        Path | None,
        Option(metavar="FILE", callback=_from_before, help="The configuration [$PGLOCK_CONFIG]."),
    ] = None,
) -> Access:
    return Access(dsn, config, tuple(target))


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--dsn``, ``--target`` and ``--config``, before or after its name, as ``access``."""
    shared = signature(_connection, eval_str=True).parameters

    @wraps(command)
    def with_access(**options: Any) -> Any:  # noqa: ANN401
        access = _connection(**{name: options.pop(name) for name in shared})
        return command(access=access, **options)

    own = signature(command, eval_str=True).parameters.values()
    shown = [*(parameter for parameter in own if parameter.name != "access"), *shared.values()]
    # What Typer reads; the function itself takes whatever comes.
    vars(with_access).update(
        __signature__=Signature([parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in shown]),
        __annotations__={},
    )
    return with_access

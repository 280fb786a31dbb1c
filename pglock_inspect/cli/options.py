"""Options that commands share."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pglock_inspect.durations import parse_duration
from pglock_inspect.errors import InvalidDuration

if TYPE_CHECKING:
    from collections.abc import Callable


class Access(NamedTuple):
    """Which servers to look at, and by whose configuration: what the flags say, before all else."""

    dsn: str | None = None
    config: Path | None = None
    targets: tuple[str, ...] = ()


class Duration(click.ParamType[float]):
    """A duration with its unit; seconds in the program."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401
        """Return seconds."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(value)
        except InvalidDuration as error:
            self.fail(str(error), param, ctx)


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

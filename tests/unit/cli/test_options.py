from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click
import pytest
from msgspec.structs import replace
from typer import Argument, Option
from typer.main import get_command

from pglock_inspect.cli.access import Source, sources_of
from pglock_inspect.cli.commands import DashedArguments, command_app
from pglock_inspect.cli.options import Access, connection_options
from pglock_inspect.config import Settings, Target
from pglock_inspect.errors import ConfigError

SETTINGS = Settings(targets=(Target("prod", "host=prod"), Target("stage", "host=${STAGE}")))


group = command_app()


@group.callback()
@connection_options
def before(access: Access) -> None: ...


@group.command()
@connection_options
def command(access: Access) -> Access:
    return access


@pytest.mark.parametrize(
    ("arguments", "access"),
    [
        (["command"], Access()),
        (["--dsn", "a", "command"], Access("a")),
        (["command", "--dsn", "b"], Access("b")),
        (["--dsn", "a", "command", "--dsn", "b"], Access("b")),
        (
            ["--target", "x", "--target", "y", "command", "--config", "f"],
            Access(config=Path("f"), targets=("x", "y")),
        ),
        (["--target", "x", "command", "--target", "z"], Access(targets=("z",))),
        (["command", "--dsn", ""], Access("")),
    ],
)
def test_the_connection_is_given_before_or_after_the_command(arguments: list[str], access: Access) -> None:
    assert get_command(group).main(arguments, standalone_mode=False) == access


@pytest.mark.parametrize(
    ("access", "environ", "sources"),
    [
        (Access(), {}, [Source("", "the PG* variables")]),
        (Access("host=a"), {"PGLOCK_DSN": "host=b"}, [Source("host=a", "--dsn")]),
        (Access(""), {"PGLOCK_DSN": "host=b"}, [Source("", "--dsn")]),
        (Access(), {"PGLOCK_DSN": "host=b", "DATABASE_URL": "c"}, [Source("host=b", "PGLOCK_DSN")]),
        (Access(), {"DATABASE_URL": "postgres://c"}, [Source("postgres://c", "DATABASE_URL")]),
        (Access(targets=("prod",)), {"PGLOCK_DSN": "host=b"}, [Source("host=prod", "target prod", "prod")]),
        (
            Access(targets=("all",)),
            {"STAGE": "s"},
            [Source("host=prod", "target prod", "prod"), Source("host=s", "target stage", "stage")],
        ),
        (Access(targets=("prod", "prod")), {}, [Source("host=prod", "target prod", "prod")]),
    ],
)
def test_where_to_connect(access: Access, environ: dict[str, str], sources: list[Source]) -> None:
    assert sources_of(access, SETTINGS, environ) == sources


@pytest.mark.parametrize(
    ("access", "settings", "sentence"),
    [
        (Access("a", targets=("prod",)), SETTINGS, "--dsn and --target exclude each other: give one of them"),
        (Access(targets=("x",)), SETTINGS, "there is no target 'x': configured are prod, stage"),
        (
            Access(targets=("all",)),
            replace(SETTINGS, targets=()),
            "no targets are configured: add [[targets]] with name and dsn, or give --dsn",
        ),
    ],
)
def test_what_cannot_be_connected_to(access: Access, settings: Settings, sentence: str) -> None:
    with pytest.raises(ConfigError) as error:
        sources_of(access, settings, {})
    assert str(error.value) == sentence


dashed = command_app()


@dashed.command(cls=DashedArguments)
def keys(
    keys: Annotated[list[str], Argument()], shape: Annotated[str | None, Option("--format", "-f")] = None
) -> tuple[list[str], str | None]:
    return keys, shape


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [
        (["-1957215242"], (["-1957215242"], None)),
        (["-5,7", "-f", "json", "-6"], (["-5,7", "-6"], "json")),
        (["a", "-fjson", "-1"], (["a", "-1"], "json")),
        (["--", "--format", "-x"], (["--format", "-x"], None)),
        (["-"], (["-"], None)),
    ],
)
def test_negative_numbers_are_arguments(arguments: list[str], parsed: object) -> None:
    assert get_command(dashed).main(arguments, standalone_mode=False) == parsed


@pytest.mark.parametrize("option", ["--formt", "-x", "--formt=json", "-x-5"])
def test_an_unknown_option_is_none(option: str) -> None:
    with pytest.raises(click.NoSuchOption):
        get_command(dashed).main([option, "1"], standalone_mode=False)

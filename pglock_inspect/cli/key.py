"""``key``: the advisory-lock keys that a name has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from pglock_inspect.cli.commands import DashedArguments, command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.options import Access, connection_options, several
from pglock_inspect.cli.output import talk, write
from pglock_inspect.errors import ConfigError, UnhashableName
from pglock_inspect.schemes import SCHEMES, scheme_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.present.keys import NamedKey


app = command_app()


@app.command(cls=DashedArguments, short_help="Show the keys that a name has.")
@connection_options
def key(
    access: Access,
    *,
    names: Annotated[list[str], Argument(metavar="NAME...")],
    schemes: Annotated[
        list[str], several("--scheme", metavar="SCHEME", help="Only this scheme. Repeatable.")
    ],
    format_name: Annotated[Literal["table", "json"], Option("--format")] = "table",
) -> ExitCode:
    """Show the key of NAME under each scheme, and the SQL that takes its lock.

    hashtext and its relatives depend on the server: they are computed for a little-endian one with UTF-8,
    or with --dsn or --target asked of the server itself.
    """
    from pglock_inspect.present import keys as present  # noqa: PLC0415

    keys = [key for name in names for key in _keys(name, schemes)]
    if access.dsn is not None or access.targets:
        keys = _asked(access, keys)
    elif any(SCHEMES[key.scheme].hashed_by_server for key in keys):
        talk("computed as a little-endian server with UTF-8 does; --dsn asks yours")
    write(present.as_json(keys) if format_name == "json" else present.as_table(keys))
    return ExitCode.OK


def _asked(access: Access, keys: Sequence[NamedKey]) -> list[NamedKey]:
    """Return the keys as the server makes them, where it is the server that hashes."""
    from pglock_inspect.cli.access import settings_of, sources_of  # noqa: PLC0415 - offline needs no psycopg
    from pglock_inspect.postgres.hashing import server_keys  # noqa: PLC0415

    source, *others = sources_of(access, settings_of(access))
    if others:
        raise ConfigError("key asks one server: give one --target")
    hashed = [key for key in keys if SCHEMES[key.scheme].hashed_by_server]
    asked = dict(zip(hashed, server_keys(source.dsn, [key.arguments for key in hashed]), strict=True))
    return [key._replace(key=asked.get(key, key.key)) for key in keys]


def _keys(name: str, schemes: Sequence[str]) -> Iterator[NamedKey]:
    """Yield the key of a name under the schemes, or under each that has one for it.

    Raises `UnhashableName` where there is none.
    """
    from pglock_inspect.present.keys import NamedKey  # noqa: PLC0415

    none = True
    for scheme in map(scheme_named, schemes or SCHEMES):
        try:
            key = scheme.key(name)
        except UnhashableName:
            if schemes:
                raise
            continue
        none = False
        arguments = scheme.sql_arguments(name) or key.sql_arguments
        assert arguments is not None
        yield NamedKey(name, scheme.name, key, arguments)
    if none:
        raise UnhashableName(f"no scheme has a key for the name {name!r}: write it in UTF-8")

"""Connection strings that refer to environment variables."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pglock_inspect.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.config.settings import Target

_VARIABLE = re.compile(r"\$\{([^{}]*)\}")


def resolve_dsn(target: Target, environ: Mapping[str, str]) -> str:
    """Return a target's connection string with each ``${NAME}`` replaced by that environment variable.

    The string is taken apart before and put together after, so that a value, whatever it contains, stays
    the one value that it stands for. Raises `ConfigError`, which never quotes what may be a password.
    """
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415  (150 ms)

    whose = f"the dsn of target {target.name!r}"

    def value_of(match: re.Match[str]) -> str:
        value = environ.get(match[1])
        if value is None:
            raise ConfigError(f"{whose} needs the environment variable {match[1]!r}: set it")
        if not _is_unicode(value):
            raise ConfigError(f"{whose} needs the environment variable {match[1]!r} in UTF-8: set it anew")
        return value

    if _VARIABLE.fullmatch(target.dsn):
        raise ConfigError(
            f"{whose} is all one variable, but a variable stands for one value: write it like"
            " 'host=db1 user=app password=${PASSWORD}'"
        )
    parameters = _parameters(target.dsn)
    if parameters is None:
        raise ConfigError(
            f"{whose} is no connection string: write 'host=db1 user=app' or 'postgresql://app@db1/app',"
            " and quote or percent-encode special characters"
        )
    return make_conninfo(**{name: _VARIABLE.sub(value_of, str(value)) for name, value in parameters.items()})


def _parameters(dsn: str) -> dict[str, Any] | None:
    from psycopg import ProgrammingError  # noqa: PLC0415
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    if "\0" in dsn:  # where libpq would stop reading
        return None
    try:
        return conninfo_to_dict(dsn)
    except ProgrammingError:
        return None


def _is_unicode(text: str) -> bool:
    """Whether a variable was UTF-8: Python hides other bytes in lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)

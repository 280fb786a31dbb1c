"""Having the server itself make the keys of names: its byte order and its database's encoding decide."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from pglock_inspect.errors import UnhashableName
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.postgres.connection import connect, where
from pglock_inspect.postgres.failures import failure_of, unlike_postgres

if TYPE_CHECKING:
    from collections.abc import Sequence


def server_keys(dsn: str, arguments: Sequence[str]) -> list[AdvisoryKey]:
    """Return the keys of ``pg_advisory_lock(ARGUMENTS)``, computed by the server.

    ``arguments`` are SQL, made by `Scheme.sql_arguments`. Raises `ServerFailure`, or `UnhashableName` for a
    name with a character that the database's encoding lacks.
    """
    with connect(dsn) as connection:
        try:
            connection.execute("SET client_encoding TO 'UTF8'")
            rows = [
                connection.execute(f"SELECT {expression}".encode()).fetchone() for expression in arguments
            ]
        except (psycopg.errors.UntranslatableCharacter, psycopg.errors.CharacterNotInRepertoire) as error:
            raise UnhashableName(
                f"the database has no key for this name: {error.diag.message_primary}"
            ) from None
        except psycopg.Error as error:
            raise failure_of(error, f"ask the server at {where(dsn)}", connecting=False) from None
    if any(row is None or None in row for row in rows):
        raise unlike_postgres(f"ask the server at {where(dsn)}")
    values = (row if len(row) > 1 else row[0] for row in rows if row)
    return [AdvisoryKey.from_value(value) for value in values]

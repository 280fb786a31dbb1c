"""The user's own query for names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from pglock_inspect.postgres.brief import briefly

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_NAMES = 10_000
_LONGEST_NAME = 1_000  # bytes


class NamesQuery:
    """Asks a connection for names. ``problem`` is a sentence as long as that fails."""

    def __init__(self, connection: psycopg.Connection[Any], text: str) -> None:
        self.problem: str | None = None
        self._connection = connection
        self._text = text

    def names(self, codec: str) -> tuple[str, ...] | None:
        """Return the first column of the rows, 10,000 at most; None where they cannot be had.

        ``codec`` is the database's.
        """
        try:
            declare = b"DECLARE pglock_names NO SCROLL CURSOR FOR " + self._text.encode(codec)
            fetch = f"FETCH {MOST_NAMES} FROM pglock_names".encode()
            with briefly(self._connection, confined=False):
                self._connection.execute(declare, prepare=False)
                rows = self._connection.execute(fetch, prepare=False)
        except (psycopg.Error, UnicodeEncodeError) as error:
            self.problem = _sentence(error)
            return None
        self.problem = None
        result = rows.pgresult
        assert result is not None
        values = (result.get_value(row, 0) for row in range(result.ntuples if result.nfields else 0))
        return tuple(_names(values, codec))


def _sentence(error: psycopg.Error | UnicodeEncodeError) -> str:
    advice = "correct it in the configuration"
    if isinstance(error, UnicodeEncodeError):
        said = "it has characters that are not in the encoding of the database"
    elif isinstance(error, psycopg.errors.QueryCanceled):
        said, advice = "it takes longer than 2 s", "give it less to read"
    else:
        if isinstance(error, psycopg.OperationalError):
            advice = "it is asked again in a minute"
        said = (error.diag.message_primary or str(error)).partition("\n")[0]
    return f"names_query returns no names: {said}; {advice}"


def _names(values: Iterable[bytes | None], codec: str) -> Iterable[str]:
    for value in values:
        if value and len(value) <= _LONGEST_NAME:
            yield value.decode(codec, "backslashreplace")

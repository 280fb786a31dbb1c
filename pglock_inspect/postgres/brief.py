"""Short, read-only transactions for questions that are not part of a snapshot."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pglock_inspect.postgres.queries import query

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg


@contextmanager
def briefly(connection: psycopg.Connection[Any], *, confined: bool = True) -> Iterator[None]:
    """Put statements into one round trip and one transaction that writes nothing and is short.

    ``confined``: nothing of the database's users is run. Their results can be fetched after it, and what went
    wrong is raised at its end.
    """
    with connection.pipeline(), connection.transaction():
        connection.execute(query("brief"), [confined], prepare=False)
        yield

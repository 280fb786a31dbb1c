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
    """Put statements into a transaction that writes nothing and in which none takes longer than 2 s.

    ``confined``: names mean PostgreSQL's own, so that nothing of the database's users is run. Behind a pooler
    nothing of this stays with the session.
    """
    with connection.transaction():
        connection.execute(query("brief"))
        if confined:
            connection.execute(query("confined"))
        yield

"""Short, read-only transactions for questions that are not part of a snapshot."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from pglock_inspect.postgres.queries import query

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg


def one_round_trip(connection: psycopg.Connection[Any]) -> AbstractContextManager[object]:
    """Send statements together; one after the other through a pooler, where nothing is prepared either.

    A transaction in a pipeline has several Syncs under way, after which PgBouncer 1.18 now and then keeps the
    server's session from everybody.
    """
    return nullcontext() if connection.prepare_threshold is None else connection.pipeline()


@contextmanager
def briefly(connection: psycopg.Connection[Any], *, confined: bool = True) -> Iterator[None]:
    """Put statements into one round trip and one transaction that writes nothing and is short.

    ``confined``: nothing of the database's users is run. Their results can be fetched after it, and what went
    wrong is raised at its end.
    """
    with one_round_trip(connection), connection.transaction():
        connection.execute(query("brief"), [confined], prepare=False)
        yield

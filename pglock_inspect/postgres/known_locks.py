"""What a database knows of the locks of known software: its traces, and names in its catalogs and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from pglock_inspect.keys import signed
from pglock_inspect.names.catalogue import claims, traces
from pglock_inspect.names.traces import Relation, Traces, parse_trace
from pglock_inspect.postgres.brief import briefly
from pglock_inspect.postgres.queries import query
from pglock_inspect.postgres.rows import text
from pglock_inspect.schemes import codec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pglock_inspect.model import Database, Name
    from pglock_inspect.names.catalogue import Claim

_ALL_WITHIN = 2.0  # seconds, until the last statement begins
_MOST_ROWS = 10_000
_KEY = (1 << 64) - 1
_PASSING = (psycopg.errors.OutOfMemory, psycopg.errors.LockNotAvailable)


class KnownLocks:
    """Asks a connection. What it cannot answer is left out, and not asked again if it never will."""

    def __init__(
        self, connection: psycopg.Connection[Any], *, read_tables: bool, clock: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._read_tables = read_tables
        self._clock = clock
        self._useless: set[tuple[Claim, Relation | None]] = set()

    def traces(self, database: Database) -> Traces | None:
        """Return the traces that the database has, or None where that cannot be known now."""
        asked = [(written, parse_trace(written)) for written in dict.fromkeys(traces())]
        asked = [(written, trace) for written, trace in asked if trace.kind != "application"]
        parameters = {
            "texts": [written for written, _ in asked],
            "kinds": [trace.kind for _, trace in asked],
            "schemas": [trace.schema for _, trace in asked],
            "names": [trace.name for _, trace in asked],
            "columns": [",".join(trace.columns) for _, trace in asked],
        }
        try:
            rows = self._rows(query("traces").encode(), parameters)
        except psycopg.Error:
            return None
        codec = codec_of(database.encoding)
        present: dict[str, tuple[Relation, ...]] = {}
        for written, schema, name, oid, readable in rows:
            relations = (Relation(text(schema, codec), text(name, codec), oid, readable),) if oid else ()
            present[text(written)] = (*present.get(text(written), ()), *relations)
        return Traces(database.oid, present)

    def names(
        self, keys: Mapping[int, Collection[int]], database: Database, traces: Traces
    ) -> Mapping[int, Mapping[int, Name]]:
        """Return names for those of ``keys`` (by form, packed) that the database has some for."""
        found: dict[int, dict[int, Name]] = {}
        began = self._clock()
        for claim in claims():
            if not claim.finds_names or not (self._read_tables or claim.lock.catalog):
                continue
            asked = [key for key in keys.get(claim.objsubid, ()) if claim.concerns(key)]
            for relation in _relations(claim, traces) if asked else ():
                if (claim, relation) in self._useless or self._clock() - began >= _ALL_WITHIN:
                    continue
                try:
                    answers = dict(self._answers(claim, relation, asked, database))
                except psycopg.Error as error:
                    if not isinstance(error, _PASSING):
                        self._useless.add((claim, relation))
                    continue
                if answers:
                    found[claim.objsubid] = {**answers, **found.get(claim.objsubid, {})}
        return found

    def _answers(
        self, claim: Claim, relation: Relation | None, keys: Collection[int], database: Database
    ) -> Iterator[tuple[int, Name]]:
        lock, codec = claim.lock, codec_of(database.encoding)
        maybe = claim.confidence != "high"
        if lock.rows:
            held = [signed(key, 64) for key in keys]
            statement = f"WITH held (key) AS (SELECT unnest(%s::bigint[])) {_about(relation, lock.rows)}"
            for key, name in self._rows(statement.encode(codec), [held]):
                if name:
                    yield key & _KEY, claim.named(text(name, codec), maybe=maybe)
        elif lock.texts and relation:
            statement = f"{_about(relation, lock.texts)} LIMIT %s"
            for (row,) in self._rows(statement.encode(codec), [_MOST_ROWS]):
                said = text(row or b"", codec)
                key = claim.hashed(database.name, relation.schema, said)
                packed = key.classid << 32 | key.objid
                if packed in keys:
                    yield packed, claim.named(lock.name.format(row=said), maybe=maybe)

    def _rows(
        self, statement: bytes, parameters: Mapping[str, object] | Sequence[object]
    ) -> list[tuple[Any, ...]]:
        with briefly(self._connection):
            cursor = self._connection.execute(statement, parameters, binary=True, prepare=False)
        return cursor.fetchall()


def _relations(claim: Claim, traces: Traces) -> Collection[Relation | None]:
    if claim.lock.table is None:
        return (None,)
    return [r for r in traces.relations(claim.lock.table) if r.readable or claim.lock.catalog]


def _about(relation: Relation | None, statement: str) -> str:
    if relation is None:
        return statement
    table = sql.Identifier(relation.schema, relation.name).as_string().replace("%", "%%")
    return statement.replace("{table}", table).replace("{oid}", str(relation.oid))

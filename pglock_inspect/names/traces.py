"""What known software leaves behind in a database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

_TRACE = re.compile(r"(table|schema|extension|application) (?:(\w+)\.)?([\w-]+)(?:\((\w+(?:, \w+)*)\))?")


class Trace(NamedTuple):
    """One trace, taken apart; ``columns`` are those that a table must have."""

    kind: Literal["table", "schema", "extension", "application"]
    schema: str | None
    name: str
    columns: tuple[str, ...]


class Relation(NamedTuple):
    """A table that exists. ``readable``: by us, without running a policy of its owner's."""

    schema: str
    name: str
    oid: int
    readable: bool


class Traces(Struct, frozen=True):
    """The traces that a database has. ``database`` is its oid; only tables have relations."""

    database: int
    present: Mapping[str, tuple[Relation, ...]]

    def relations(self, table: str) -> tuple[Relation, ...]:
        """Return the tables of that name and those columns."""
        return self.present.get(f"table {table}", ())


def parse_trace(text: str) -> Trace:
    """Return a trace as the data file writes it, taken apart. Raises ValueError."""
    match = _TRACE.fullmatch(text)
    if match is None:
        raise ValueError(f"no trace: {text}")
    kind, schema, name, columns = match.groups()
    return Trace(kind, schema, name, tuple(columns.split(", ")) if columns else ())  # type: ignore[arg-type]

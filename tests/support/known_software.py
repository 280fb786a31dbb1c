"""Known software, met by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.model import Database, LockRows, Session
from pglock_inspect.names import KnownNames
from pglock_inspect.names.traces import Relation, Traces, parse_trace

if TYPE_CHECKING:
    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Name
    from pglock_inspect.names.catalogue import Software

APP = Database(5, "app")


def known(
    key: AdvisoryKey,
    database: Database = APP,
    traces: Traces | None = None,
    application_name: str | None = None,
) -> Name | None:
    """Return the name that known software gives to one key of a session."""
    packed = key.classid << 32 | key.objid
    rows = LockRows(1, "1/1", database.oid, key.objsubid, "ExclusiveLock", True, frozenset([packed]))  # noqa: FBT003
    session = Session(1, application_name=application_name)
    return KnownNames(traces).lookup(rows.keys, rows, database, session).get(packed)


def traces_of(software: Software, database: Database = APP) -> Traces:
    """Return all that a product leaves in a database."""
    return traces(
        *(item if isinstance(item, str) else item[-1] for item in software.evidence), database=database
    )


def traces(*present: str, database: Database = APP) -> Traces:
    return Traces(
        database.oid,
        {item: _relations(item) for item in present if not item.startswith("application ")},
    )


def _relations(item: str) -> tuple[Relation, ...]:
    trace = parse_trace(item)
    return (
        (Relation(trace.schema or "public", trace.name, 16384, readable=True),)
        if trace.kind == "table"
        else ()
    )

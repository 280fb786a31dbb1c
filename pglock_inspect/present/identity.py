"""What is known of a lock that a log line, a deadlock report or a person mentions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.findings.unnamed import get_to_know, give_a_name
from pglock_inspect.holds import History, fold
from pglock_inspect.model import Database, Instant, LockRows, Server, Session, Snapshot
from pglock_inspect.names import KnownNames, Learner
from pglock_inspect.present.account import Account, Line, accounts
from pglock_inspect.present.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pglock_inspect.model import Job, Name, Report
    from pglock_inspect.names.mentions import Mention

_MOST_CANDIDATES = 5
_BY: Mapping[str, str] = {
    "config": "the configuration",
    "query": "the statement in the text",
    "application_name": "an application_name",
    "names_query": "names_query",
    "known": "known software",
}


def identify(mentioned: Sequence[Mention], jobs: Sequence[Job], report: Report | None) -> list[Account]:
    """Return an account of each lock: its names, its forms, and who holds it now where a server was asked."""
    databases = report.databases if report else {}
    names = _names(mentioned, jobs, databases)
    found = []
    for mention, name in zip(mentioned, names, strict=True):
        database = databases.get(mention.database) if mention.database is not None else None
        found.append(
            Account(
                database=database.name if database else None,
                key=mention.key,
                job=name.text if name else None,
                title=_title(mention, name, database),
                lines=tuple(_lines(mention, name, database, report)),
            )
        )
    return found


def _names(
    mentioned: Sequence[Mention], jobs: Sequence[Job], databases: Mapping[int, Database]
) -> list[Name | None]:
    """Return the names that a poll would give these locks, had it seen them with these statements."""
    snapshot = Snapshot(
        taken_at=Instant(0),
        asked_at=0.0,
        answered_at=0.0,
        server=Server(version="", version_num=0, database=""),
        locks=tuple(
            LockRows(
                pid=at,
                virtual_transaction=f"{at}/1",
                database=mention.database or 0,
                objsubid=mention.key.objsubid,
                mode=mention.mode or "ExclusiveLock",
                granted=True,
                keys=frozenset({mention.key.classid << 32 | mention.key.objid}),
            )
            for at, mention in enumerate(mentioned, start=1)
        ),
        sessions={
            at: Session(pid=at, query=mention.statement) for at, mention in enumerate(mentioned, start=1)
        },
        databases=databases,
    )
    learner = Learner(jobs)
    learner.listen(snapshot, fold(History(), snapshot, learner.book).groups)
    return [group.subjects[0].name for group in fold(History(), snapshot, learner.book).groups]


def _title(mention: Mention, name: Name | None, database: Database | None) -> str:
    called = f"key {mention.key}" if name is None else f"{name.text} (maybe)" if name.maybe else name.text
    if mention.database is None:
        return called
    return f"{called} in database {database.name if database else f'with oid {mention.database}'}"


def _lines(
    mention: Mention, name: Name | None, database: Database | None, report: Report | None
) -> Iterator[Line]:
    if name:
        scheme = f" ({name.scheme})" if name.scheme else ""
        yield Line("Named by", f"{_BY[name.source]}{scheme}")
    else:
        candidates = [each.text for each in KnownNames().candidates(mention.key, database)]
        if candidates:
            yield Line("Maybe", "; ".join(candidates[:_MOST_CANDIDATES]))
    key = mention.key
    yield Line("pg_locks", f"classid {key.classid}, objid {key.objid}, objsubid {key.objsubid}")
    if key.sql_arguments is not None:
        yield Line("In SQL", f"pg_advisory_lock({key.sql_arguments})")
    else:
        yield Line("In SQL", f"an extension's own lock class ({key.objsubid}); no SQL function takes it")
    if mention.pid is not None:
        blocker = f", blocked by pid {mention.blocked_by}" if mention.blocked_by is not None else ""
        yield Line("Then", f"pid {mention.pid} wanted it in mode {mention.mode}{blocker}")
    if mention.statement:
        yield Line("Statement", one_line(mention.statement))
    if report:
        yield from _now(mention, report, database)


def _now(mention: Mention, report: Report, database: Database | None) -> Iterator[Line]:
    here = [
        (lock.database, lock.key)
        for lock in report.locks
        if lock.key == mention.key and (database is None or lock.database == database.name)
    ]
    if not here:
        yield Line("Now", "free")
    for account in accounts(report, here):
        yield Line("Now", account.title)
        for line in account.lines:
            asked = line.text == get_to_know(mention.key)
            yield Line(line.label, give_a_name(mention.key)) if asked else line

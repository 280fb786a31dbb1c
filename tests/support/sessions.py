"""Sessions and their locks made by hand, polled through the fold as the watcher does it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.holds import History, fold
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Database, Instant, LockRows, Server, Session, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pglock_inspect.keys import Value
    from pglock_inspect.model import Name
    from pglock_inspect.names import Learner

DATABASE = Database(5, "app")
OTHER = Database(6, "other")


class Said(NamedTuple):
    """A session that holds keys, or waits for them, and what it says."""

    keys: frozenset[AdvisoryKey]
    query: str | None = None
    application_name: str | None = None
    granted: bool = True
    database: Database = DATABASE


def key(written: Value | str) -> AdvisoryKey:
    return AdvisoryKey.parse(written) if isinstance(written, str) else AdvisoryKey.from_value(written)


def packed(key: AdvisoryKey) -> int:
    return key.classid << 32 | key.objid


def holder(
    *keys: AdvisoryKey | Value | str, query: str | None = None, application: str | None = None
) -> Said:
    held = frozenset(k if isinstance(k, AdvisoryKey) else key(k) for k in keys)
    return Said(held, query, application)


def lock_rows(said: Said, pid: int = 1) -> Iterator[LockRows]:
    for objsubid in sorted({key.objsubid for key in said.keys}):
        keys = frozenset(packed(key) for key in said.keys if key.objsubid == objsubid)
        yield LockRows(pid, f"{pid}/7", said.database.oid, objsubid, "ExclusiveLock", said.granted, keys)


class Polls:
    """Polls sessions by pid. What is equal in two polls is the same object, as the reader hands it out."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.history = History()
        self._read: dict[Said, tuple[Session, tuple[LockRows, ...]]] = {}

    def poll(self, sessions: Mapping[int, Said]) -> dict[AdvisoryKey, Name | None]:
        """Return the names of all keys."""
        read = {pid: self._read.get(said) or self._session(pid, said) for pid, said in sessions.items()}
        self._read = {sessions[pid]: what for pid, what in read.items()}
        snapshot = Snapshot(
            taken_at=Instant(self.history.poll * 2_000_000),
            asked_at=self.history.poll * 2.0,
            answered_at=self.history.poll * 2.0 + 0.001,
            server=Server("18.0", 180000, DATABASE.name),
            locks=tuple(rows for _, locks in read.values() for rows in locks),
            sessions={pid: session for pid, (session, _) in read.items()},
            databases={DATABASE.oid: DATABASE, OTHER.oid: OTHER},
        )
        history = fold(self.history, snapshot, self.learner.book)
        self.learner.listen(snapshot, history.groups)
        if self.learner.book is not history.book:
            history = fold(self.history, snapshot, self.learner.book)
        self.history = history
        return {
            group.rows.key(one): subject.name
            for group in history.groups
            for subject in group.subjects
            for one in subject.keys
        }

    @staticmethod
    def _session(pid: int, said: Said) -> tuple[Session, tuple[LockRows, ...]]:
        session = Session(
            pid,
            database=said.database.name,
            application_name=said.application_name,
            backend_type="client backend",
            query=said.query,
        )
        return session, tuple(lock_rows(said, pid))

"""What polls of a simulated server show, and what is true of the locks that they show."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.model import LockRows, Prepared, Server as ServerInfo, Session, Snapshot
from tests.unit.held.simulator import Backend, PreparedTransaction

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from tests.unit.held.simulator import Holding, Key, Owner, Server

HoldId = tuple[int | str, int, int, int, str]
"""Pid or a prepared transaction's virtual one, database, objsubid, packed key, mode."""

_Row = tuple[int | None, str, int, int, str, bool, int | None]


class Truth(NamedTuple):
    """What is true of a lock as of the moment that its snapshot is about.

    ``age`` is in seconds; ``holder`` is the owner's serial. ``stamp`` is the true one, None where that is not
    held; ``rivals`` are how many other locks and stamps a stamp could be confused with.
    """

    age: float
    holder: int
    stamp: Key | None
    rivals: int


class Observation(NamedTuple):
    """A snapshot, what is true of the locks in it, and whose row each pid shows: the session's serial."""

    snapshot: Snapshot
    holds: Mapping[HoldId, Truth]
    seen: Mapping[int, int]


class Poller:
    """Reads a server in several glances, one after the other: `ask`, locks, sessions, prepared, `answer`.

    As from the reader, what is as it was in the last poll is the very same object.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._rows: dict[object, LockRows] = {}
        self._sessions: dict[int, Session] = {}

    def ask(self) -> None:
        self._asked_at = self._server.now
        self._server.pass_time(300)
        self._taken, self._taken_at = self._server.now, self._server.clock()
        self._server.pass_time(1)

    def read_locks(self, *, torn: bool = False) -> None:
        """Read the lock table; torn, every other row shows it before a transaction begins or is prepared."""
        grouped: dict[_Row, set[int]] = {}
        shown: dict[HoldId, tuple[Owner, Key]] = {}
        for owner in (*self._server.backends.values(), *self._server.prepared):
            for number, (key, held) in enumerate(owner.locks.items()):
                pid, transaction = self._process(owner, held, before=torn and number % 2 == 1)
                row = (pid, transaction, owner.database, key.objsubid, key.mode, True, None)
                grouped.setdefault(row, set()).add(key.packed)
                shown[pid or transaction, owner.database, *key] = (owner, key)
        self._holds = {hold: self._truth(hold, *of_whom, shown) for hold, of_whom in shown.items()}
        for backend in self._server.backends.values():
            if backend.wait:
                key, since = backend.wait.key, backend.wait.waitstart
                who = backend.pid, backend.virtual_transaction, backend.database
                grouped[*who, key.objsubid, key.mode, False, since] = {key.packed}
        before, self._rows = self._rows, {}
        self._locks = tuple(self._lock_rows(row, frozenset(keys), before) for row, keys in grouped.items())
        self._xids = {owner.virtual_transaction: owner.gid for owner in self._server.prepared}
        self._server.pass_time(1)

    def read_sessions(self, *, missing: Container[int] = ()) -> None:
        """Read all sessions but those of the ``missing`` pids."""
        before, self._sessions = self._sessions, {}
        self._seen = {pid: it.serial for pid, it in self._server.backends.items() if pid not in missing}
        for backend in self._server.backends.values():
            if backend.pid not in missing:
                session = _session(backend)
                known = before.get(backend.pid)
                self._sessions[backend.pid] = known if known and known == session else session
        self._server.pass_time(1)

    def read_prepared(self) -> None:
        rows = {owner.gid: owner.prepared_at for owner in self._server.prepared}
        self._prepared = {
            transaction: Prepared(gid, rows[gid]) for transaction, gid in self._xids.items() if gid in rows
        }

    def answer(self) -> Observation:
        self._server.pass_time(300)
        snapshot = Snapshot(
            taken_at=self._taken_at,
            asked_at=self._asked_at / 1e6,
            answered_at=self._server.now / 1e6,
            server=ServerInfo("18.6", 18_00_06, "app", started_at=self._server.started_at),
            locks=self._locks,
            sessions=self._sessions,
            prepared=self._prepared,
        )
        return Observation(snapshot, self._holds, self._seen)

    def _process(self, owner: Owner, held: Holding, *, before: bool) -> tuple[int | None, str]:
        if isinstance(owner, Backend):
            outside = before and not held.levels
            return owner.pid, f"{owner.slot}/0" if outside else owner.virtual_transaction
        assert isinstance(owner, PreparedTransaction)
        being_prepared = owner.since >= self._taken
        return owner.by.pid if before and being_prepared else None, owner.virtual_transaction

    def _truth(
        self, hold: HoldId, owner: Owner, key: Key, shown: Mapping[HoldId, tuple[Owner, Key]]
    ) -> Truth:
        process = [other for other_hold, (_, other) in shown.items() if other_hold[:2] == hold[:2]]
        stamp = owner.true_stamp(key)
        locks = sum(other.low == key.low for other in process)
        stamps = sum(other.packed >> 32 == key.low and self._server.may_be_stamp(other) for other in process)
        return Truth(
            age=max(0, self._taken - owner.locks[key].since) / 1e6,
            holder=owner.by.serial
            if isinstance(owner, PreparedTransaction) and hold[0] == owner.by.pid
            else owner.serial,
            stamp=stamp if stamp in process else None,
            rivals=locks + stamps - 2,
        )

    def _lock_rows(self, row: _Row, keys: frozenset[int], before: Mapping[object, LockRows]) -> LockRows:
        pid, transaction, database, objsubid, mode, granted, waitstart = row
        process = (pid or transaction, *row[2:])
        rows = before.get(process)
        if rows is None or (rows.virtual_transaction, rows.keys) != (transaction, keys):
            if rows and rows.keys == keys:
                keys = rows.keys
            rows = LockRows(pid, transaction, database, objsubid, mode, granted, keys, waitstart)  # type: ignore[arg-type]
        self._rows[process] = rows
        return rows


def _session(backend: Backend) -> Session:
    session = Session(backend.pid, application_name="worker")
    if not backend.visible:
        return session
    return Session(
        backend.pid,
        application_name="worker",
        state=backend.state,
        backend_start=backend.backend_start,
        xact_start=backend.xact_start,
        query_start=backend.query_start,
        state_change=backend.state_change,
        backend_type="client backend",
        query=backend.query,
    )

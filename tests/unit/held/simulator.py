"""A simulated server: what sessions do to advisory locks, told in PostgreSQL's ways.

Time is in microseconds. `Server.now` is true time; the server's clock shows `Server.offset` more, and steps
with it. The truth about a lock stands in its `Holding`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

from pglock_inspect.model import Instant
from tests.support.reports import NOW

EXCLUSIVE, SHARED = "ExclusiveLock", "ShareLock"
LOW = (1 << 32) - 1
SECOND = 1_000_000

_BOOT = NOW - 80_000 * SECOND
_UNIX_EPOCH = -946_684_800


class Key(NamedTuple):
    """A key in one mode; `packed` as in `LockRows`."""

    objsubid: int
    packed: int
    mode: str = EXCLUSIVE

    @property
    def low(self) -> int:
        return self.packed & LOW


def stamp_for(key: Key, clock: int) -> Key:
    """Return the stamp that says of a lock that it was taken then."""
    second = clock // SECOND - _UNIX_EPOCH
    return Key(2, key.low << 32 | second & LOW, SHARED)


def instant_of(stamp: Key) -> Instant:
    """Return the first instant of the second that a stamp names."""
    return Instant(((stamp.packed & LOW) + _UNIX_EPOCH) * SECOND)


@dataclass
class Holding:
    """How often a process holds a lock, and since which true moment without a break.

    `levels` are the depths of the savepoints below which it was taken at transaction level; `stamp` is the
    one that was taken together with it, `stamped` when.
    """

    since: int
    session: int = 0
    levels: list[int] = field(default_factory=list)
    stamp: Key | None = None
    stamped: int = 0


@dataclass
class Owner:
    """Who holds locks; no two have one `serial`."""

    serial: int
    database: int
    locks: dict[Key, Holding] = field(default_factory=dict, kw_only=True)

    def true_stamp(self, key: Key) -> Key | None:
        """Return the stamp that was taken together with a lock, None where that is not held any more."""
        held = self.locks[key]
        stamp = self.locks.get(held.stamp) if held.stamp else None
        return held.stamp if stamp and stamp.since == held.stamped else None

    def drop_free(self) -> None:
        self.locks = {key: held for key, held in self.locks.items() if held.session or held.levels}


@dataclass
class PreparedTransaction(Owner):
    """What a backend prepared; `since` is when, in true time."""

    gid: str
    virtual_transaction: str
    prepared_at: Instant
    by: Backend
    since: int


class Wait(NamedTuple):
    key: Key
    transaction_level: bool
    waitstart: Instant


@dataclass
class Backend(Owner):
    """A session. What it does takes place at `server.now`; what cannot be done now is refused silently."""

    server: Server
    pid: int
    slot: int
    backend_start: Instant
    visible: bool = True
    state: str = "idle"
    state_change: Instant | None = None
    query: str = ""
    query_start: Instant | None = None
    xact_start: Instant | None = None
    explicit: bool = False
    aborted: bool = False
    depth: int = 0
    wait: Wait | None = None

    @property
    def running(self) -> bool:
        return self.state == "active"

    @property
    def virtual_transaction(self) -> str:
        return f"{self.slot}/{self.server.local_transactions[self.slot] if self.xact_start else 0}"

    # --- Statements

    def start(self, query: str) -> None:
        clock = self.server.clock()
        self.state, self.state_change = "active", clock
        self.query, self.query_start = query, clock
        if not self.explicit:
            self._start_transaction()

    def finish(self) -> None:
        if self.explicit:
            self.state = "idle in transaction (aborted)" if self.aborted else "idle in transaction"
        else:
            self._end_transaction()
            self.state = "idle"
        self.wait, self.state_change = None, self.server.clock()

    def fail(self) -> None:
        """End the statement with an error: inside a savepoint, that aborts what began with it only."""
        if self.explicit:
            self.aborted = True
            self._release_levels(self.depth)
            if self.depth == 0:
                self.xact_start = None
        self.finish()

    # --- Transactions; each is (part of) a statement

    def begin(self) -> None:
        self.explicit = True  # in a transaction that is open, a warning and nothing else

    def end(self) -> None:
        """COMMIT or ROLLBACK."""
        self._end_transaction()

    def savepoint(self) -> None:
        if self.explicit and not self.aborted:
            self.depth += 1

    def rollback_to(self) -> None:
        if self.explicit and self.depth and self.xact_start:
            self._release_levels(self.depth)
            self.aborted = False

    def commit_in_procedure(self) -> None:
        if not self.explicit:
            self._release_levels(0)
            self._start_transaction()

    def prepare(self, gid: str) -> None:
        """PREPARE TRANSACTION, which rolls back where a lock is held at both levels."""
        both = any(held.session and held.levels for held in self.locks.values())
        if not self.explicit or self.aborted or both or any(p.gid == gid for p in self.server.prepared):
            self._end_transaction()
            return
        prepared = PreparedTransaction(
            next(self.server.serials),
            self.database,
            gid,
            self.virtual_transaction,
            self.server.clock(),
            self,
            self.server.now,
            locks={key: held for key, held in self.locks.items() if held.levels},
        )
        self.locks = {key: held for key, held in self.locks.items() if not held.levels}
        self.server.prepared.append(prepared)
        self._end_transaction()

    def _start_transaction(self) -> None:
        self.xact_start = self.server.clock()
        self.server.local_transactions[self.slot] += 1

    def _end_transaction(self) -> None:
        self._release_levels(0)
        self.xact_start, self.explicit, self.aborted, self.depth = None, False, False, 0

    def _release_levels(self, depth: int) -> None:
        for held in self.locks.values():
            held.levels = [level for level in held.levels if level < depth]
        self.drop_free()

    # --- Locks

    def take(self, key: Key, *, transaction_level: bool, stamp_after: int | None = None) -> bool:
        """Take a lock if it can be had now, and a stamp a moment later if it was not held before."""
        if self.aborted or not self.server.is_free(key, self):
            return False
        fresh = key not in self.locks
        held = self.locks.setdefault(key, Holding(self.server.now))
        if transaction_level:
            held.levels.append(self.depth)
        else:
            held.session += 1
        if stamp_after is not None and fresh:
            self.server.pass_time(stamp_after)
            stamp = stamp_for(key, self.server.clock())
            if self.take(stamp, transaction_level=transaction_level):
                held.stamp, held.stamped = stamp, self.server.now
        return True

    def await_lock(self, key: Key, *, transaction_level: bool) -> None:
        """Take a lock with its stamp, now or as soon as it is free."""
        if not self.aborted and not self.take(key, transaction_level=transaction_level, stamp_after=0):
            self.wait = Wait(key, transaction_level, self.server.clock())

    def release(self, key: Key, *, with_stamp: bool = True) -> None:
        """Release a session-level lock once, and the stamp that was taken with it where it is free then."""
        held = self.locks.get(key)
        if held is None or not held.session or self.aborted:
            return
        held.session -= 1
        self.drop_free()
        if key not in self.locks and held.stamp in self.locks and with_stamp:
            self.release(held.stamp)

    def release_all(self) -> None:
        if not self.aborted:
            for held in self.locks.values():
                held.session = 0
            self.drop_free()


class Server:
    def __init__(self) -> None:
        self.now = 0
        self.offset = 0
        self.started_at = Instant(_BOOT)
        self.serials = count()
        self.transactions = count(700)
        self.local_transactions = dict.fromkeys(range(20), 0)
        self.backends: dict[int, Backend] = {}
        self.prepared: list[PreparedTransaction] = []

    def clock(self) -> Instant:
        return Instant(_BOOT + self.now + self.offset)

    def may_be_stamp(self, key: Key) -> bool:
        """Whether a key names a second since the server started."""
        return (key.objsubid, key.mode) == (2, SHARED) and instant_of(key) > self.started_at - SECOND

    def pass_time(self, microseconds: int) -> None:
        self.now += microseconds

    def connect(self, pid: int, slot: int, database: int, *, visible: bool) -> Backend:
        backend = Backend(next(self.serials), database, self, pid, slot, self.clock(), visible)
        backend.state_change = self.clock()
        self.backends[pid] = backend
        return backend

    def resolve(self, gid: str) -> None:
        """COMMIT PREPARED or ROLLBACK PREPARED."""
        self.prepared = [prepared for prepared in self.prepared if prepared.gid != gid]

    def restart(self, *, after_crash: bool) -> None:
        """End all sessions; a postmaster that lived through the crash of a backend is still the same."""
        self.backends = {}
        for prepared in self.prepared:
            prepared.virtual_transaction = f"-1/{next(self.transactions)}"
        if not after_crash:
            self.started_at = self.clock()

    def is_free(self, key: Key, asking: Owner) -> bool:
        return not any(
            EXCLUSIVE in (key.mode, other.mode)
            for owner in (*self.backends.values(), *self.prepared)
            if owner is not asking and owner.database == asking.database
            for other in owner.locks
            if other[:2] == key[:2]
        )

    def grant(self) -> None:
        """Give waiters what has become free; those in front of the queue first."""
        waiting = [backend for backend in self.backends.values() if backend.wait]
        for backend in sorted(waiting, key=lambda waiter: waiter.wait.waitstart if waiter.wait else 0):
            wait = backend.wait
            if wait and backend.take(wait.key, transaction_level=wait.transaction_level, stamp_after=0):
                backend.wait = None

"""The two kinds of lock: what to send, and what the answers mean; apart from waiting."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from reprlib import repr as shortened
from typing import TYPE_CHECKING, ClassVar

from psycopg import errors
from psycopg.pq import Escaping, PipelineStatus, TransactionStatus as Status

from pglock_inspect.errors import InTransaction, LockLost, PoolerDetected, UncommittedWork
from pglock_inspect.keys import AdvisoryKey, signed
from pglock_inspect.lock.wire import AnyConnection, ask, ask_again

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult

_BEGAN = "(extract(epoch FROM now()) * 1000000)::bigint"  # tells a transaction from all others
_ONE_SNAPSHOT = (b"repeatable read", b"serializable")  # for all of a transaction
_LONGEST_TIMEOUT = 2**31 - 1  # milliseconds


@dataclass(eq=False)
class Level(ABC):
    """A lock on a connection. Unless it is `free`, something is held, or may be: `undo` releases that.

    `lease`, in seconds, is for a connection of the helper's own. `here` is SQL that is true where the lock is
    held, in that session or that transaction.
    """

    connection: AnyConnection
    name: str
    key: AdvisoryKey
    wait: timedelta
    lease: float | None
    stamps: bool
    through_pooler: bool

    free = True
    here = "true"
    in_session = False  # whether something may be held that the end of a transaction does not release
    in_transaction: ClassVar[bool]
    how_lost: ClassVar[str]

    def __post_init__(self) -> None:
        self.pgconn = self.connection.pgconn
        self.args = self.key.sql_arguments
        self.low = signed(self.key.objid, 32)

    def take(self) -> PQGen[bool]:
        """Return whether the lock was granted. Raises InTransaction, PoolerDetected and psycopg's errors."""
        status = self.pgconn.transaction_status
        if self.pgconn.pipeline_status != PipelineStatus.OFF or status == Status.ACTIVE:
            raise InTransaction(
                "the connection is busy with a pipeline, a COPY or a stream: end that before locking"
            )
        if status in (Status.INTRANS, Status.INERROR):
            raise InTransaction("the connection is in a transaction: commit or roll back before locking")
        self.free = False
        try:
            granted = yield from self._take()
        except errors.LockNotAvailable:  # timed out, and perhaps granted at that moment
            granted = False
        except errors.OutOfMemory:  # the lock table is full
            if not self.stamps:
                raise
            yield from self.undo()
            self.stamps = False
            return (yield from self.take())
        if not granted and not self.free:
            yield from self.undo()
        return granted

    @abstractmethod
    def _take(self) -> PQGen[bool]: ...

    @abstractmethod
    def release(self, left: int, *, failed: bool) -> PQGen[None]:
        """Release the lock when the job has ended, and what it left is rolled back if it has to be."""

    def undo(self) -> PQGen[None]:
        """Release what may be held."""
        undo = [] if self.pgconn.transaction_status in (Status.IDLE, Status.UNKNOWN) else ["ROLLBACK"]
        if self.in_session:
            stamp = f"{self.low}, objid::bigint::bit(32)::int"
            undo += [
                self._held(f"pg_advisory_unlock({self.args})", *self.key, "ExclusiveLock"),
                self._held(f"pg_advisory_unlock_shared({stamp})", self.key.objid, "objid", 2, "ShareLock"),
            ]
        if undo:
            yield from ask(self.connection, *undo)
        self.free = True

    def check(self) -> PQGen[None]:
        """Raise LockLost unless the lock is held; InTransaction where that cannot be asked."""
        if self.pgconn.transaction_status == Status.INERROR:
            if self.in_transaction:
                raise self._lost()
            raise InTransaction("the connection is in an aborted transaction: roll back, then check the lock")
        yield from self._expect(self._held("1", *self.key, "ExclusiveLock"))

    def beat(self) -> PQGen[None]:
        """Renew the lease; raise LockLost if another session or transaction answers."""
        yield from self._expect(f"SELECT 1 WHERE {self.here}")

    def _expect(self, select: str) -> PQGen[None]:
        if not (yield from ask(self.connection, select))[-1].ntuples:
            raise self._lost()

    def _lost(self) -> LockLost:
        return LockLost(f"the lock of {shortened(self.name)} was lost while the job ran: {self.how_lost}")

    def _held(self, columns: str, classid: int, objid: int | str, objsubid: int, mode: str) -> str:
        """Return the SQL that finds a lock that this session holds."""
        key = f"classid = {classid} AND objid = {objid} AND objsubid = {objsubid} AND mode = '{mode}'"
        mine = f"locktype = 'advisory' AND granted AND pid = pg_backend_pid() AND {self.here}"
        return f"SELECT {columns} FROM pg_locks WHERE {mine} AND {key}"  # noqa: S608  (numbers and our words)

    def _grant(self, lock: str, shared: str, *columns: str) -> str:
        """Return the SQL that takes the lock, and then the stamp: the second modulo 2^32, as int4."""
        second = "floor(extract(epoch FROM clock_timestamp()))::bigint"
        granted = f"SELECT CASE WHEN {lock} THEN {second} END AS second WHERE {self.here} OFFSET 0"
        stamp = f"{shared}({self.low}, second::bit(32)::int)" if self.stamps else "false"
        row = ", ".join((self._label(), "pg_backend_pid()", "second", stamp, *columns))
        return f"SELECT {row} FROM ({granted}) AS granted"  # noqa: S608  (as above)

    def _label(self) -> str:
        """Return the name as an SQL literal, to be seen in `pg_stat_activity`; NULL if it cannot be sent."""
        info = self.connection.info
        unicode = self.name.isascii() or info.parameter_status("server_encoding") == "UTF8"
        if "\0" in self.name or not (unicode and info.encoding == "utf-8"):
            return "NULL"
        return bytes(Escaping(self.pgconn).escape_literal(self.name.encode())).decode()

    def _timeout(self) -> list[str]:
        if not self.wait:
            return []
        milliseconds = min(math.ceil(self.wait / timedelta(milliseconds=1)), _LONGEST_TIMEOUT)
        return [f"SELECT set_config('lock_timeout', '{milliseconds}', true)"]

    def _lease(self) -> list[str]:
        """Return the SQL that has the server end a session of ours that has been silent for the lease."""
        if self.lease is None:
            return []
        seconds, milliseconds = int(self.lease), int(self.lease * 1000)
        settings = {
            "idle_session_timeout": milliseconds,  # PostgreSQL 14
            "idle_in_transaction_session_timeout": milliseconds,
            "tcp_user_timeout": milliseconds,
            "tcp_keepalives_idle": seconds // 3,
            "tcp_keepalives_interval": seconds // 6,
            "tcp_keepalives_count": 3,
            "client_connection_check_interval": milliseconds // 3,  # PostgreSQL 14, an error on some systems
        }
        values = ", ".join(f"('{name}', '{value}')" for name, value in settings.items())
        known = "current_setting(name, true) IS NOT NULL AND (name !~ 'client' OR version() ~ 'linux')"
        source = f"(VALUES {values}) AS lease (name, value) WHERE {self.here} AND {known}"
        return [f"SELECT set_config(name, value, {self.in_transaction}) FROM {source}"]  # noqa: S608  (as above)


class SessionLevel(Level):
    """Held until it is released or the session ends; the connection is in no transaction meanwhile."""

    in_session = True
    in_transaction = False
    how_lost = "something else released it, or a transaction pooler came between (see run_with_xact_lock)"

    def _take(self) -> PQGen[bool]:
        if not self.through_pooler:
            self.here = f"pg_backend_pid() = {self.pgconn.backend_pid}"
        lock = f"pg_try_advisory_lock({self.args})"
        if self.wait:
            lock = f"pg_advisory_lock({self.args}) IS NOT NULL"
        take = partial(self._grant, lock, "pg_try_advisory_lock_shared")
        if before := [*self._lease(), *self._timeout()]:
            row = (yield from ask(self.connection, *before, take()))[-1]
        else:
            row = yield from self._ask_again((self.name, self.key, self.stamps), take)
        if not row.ntuples:
            self.free = True
            raise PoolerDetected(
                f"a pooler such as PgBouncer makes a session-level lock of {shortened(self.name)} unsafe: "
                "connect directly, use run_with_xact_lock(), or pass pooler='allow' if it pools sessions"
            )
        _, pid, second, stamped = (row.get_value(0, column) for column in range(4))
        self.here = f"pg_backend_pid() = {int(pid or 0)}"
        self.stamp = [signed(int(second or 0) & 0xFFFFFFFF, 32)] if stamped == b"t" else []
        self.free = second is None
        return not self.free

    def release(self, left: int, *, failed: bool) -> PQGen[None]:
        """Raise LockLost and UncommittedWork."""
        row = yield from self._ask_again((self.key, bool(self.stamp)), self._unlock, *self.stamp)
        self.free = True
        if not row.ntuples or row.get_value(0, row.nfields - 1) != b"t":
            raise self._lost()
        if left == Status.INTRANS and not failed:
            raise UncommittedWork(
                f"the job {shortened(self.name)} left a transaction open, now rolled back: commit in the job"
            )

    def _unlock(self) -> str:
        stamp = f"pg_advisory_unlock_shared({self.low}, $1), " if self.stamp else ""
        return f"SELECT {stamp}pg_advisory_unlock({self.args}) WHERE {self.here}"

    def _ask_again(self, form: Hashable, text: Callable[[], str], *values: int) -> PQGen[PGresult]:
        return ask_again(self.connection, form, text, *values, prepare=not self.through_pooler)


class TransactionLevel(Level):
    """Held until the transaction that took it ends."""

    in_transaction = True
    how_lost = "a commit, a rollback or an error ended its transaction (leave that to run_with_xact_lock)"

    def _take(self) -> PQGen[bool]:
        lock, stamp = f"pg_try_advisory_xact_lock({self.args})", "pg_try_advisory_xact_lock_shared"
        take = self._grant(lock, stamp, _BEGAN, "current_setting('transaction_isolation')")
        begin, wait = [self._begin(), *self._lease()], ["BEGIN", *self._lease(), *self._timeout()]
        if not self.wait:
            row = (yield from ask(self.connection, *begin, take))[-1]
            if row.get_value(0, 2) is None or row.get_value(0, 5) not in _ONE_SNAPSHOT:
                return self._taken(row)
            wait = []
        # The job's transaction begins when the session has the lock: a snapshot from before would hide the
        # work of the last run, and the time-out is not for what the job does.
        self.in_session = True
        wait += [f"SELECT pg_advisory_lock({self.args})", "COMMIT"]
        unlock = f"SELECT pg_advisory_unlock({self.args})"
        results = yield from ask(self.connection, *wait, *begin, take, unlock)
        self.in_session = False
        return self._taken(results[-2])

    def _taken(self, row: PGresult) -> bool:
        self.here = f"{_BEGAN} = {int(row.get_value(0, 4) or 0)}"
        return row.get_value(0, 2) is not None

    def _begin(self) -> str:
        conn, begin = self.connection, "BEGIN"
        if conn.isolation_level is not None:
            begin += f" ISOLATION LEVEL {conn.isolation_level.name.replace('_', ' ')}"
        begin += {None: "", True: " READ ONLY", False: " READ WRITE"}[conn.read_only]
        return begin + {None: "", True: " DEFERRABLE", False: " NOT DEFERRABLE"}[conn.deferrable]

    def release(self, left: int, *, failed: bool) -> PQGen[None]:
        """Commit, or roll back after a failure. Raises LockLost, and psycopg's error if a commit fails."""
        if left == Status.IDLE or (left == Status.INERROR and not failed):
            raise self._lost()
        if failed:
            yield from self.undo()
            return
        try:  # in any other transaction, whose unguarded work is not to be committed, the division fails
            yield from ask(self.connection, f"SELECT 1 / ({self.here})::int", "COMMIT")
        except errors.DivisionByZero:
            raise self._lost() from None
        self.free = True

"""What the two kinds of lock have in common: what to send, and what the answers mean; apart from waiting."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import timedelta
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, ClassVar

from psycopg import errors
from psycopg.pq import Escaping, TransactionStatus as Status

from pglock_inspect.errors import LockLost
from pglock_inspect.keys import AdvisoryKey, signed
from pglock_inspect.lock.wire import AnyConnection, ask, refuse_unless_idle

if TYPE_CHECKING:
    from weakref import ReferenceType

    from psycopg.abc import PQGen

SECOND = "floor(extract(epoch FROM {}))::bigint"
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
    stamps: bool
    wait: timedelta
    through_pooler: bool
    lease: float | None

    free: bool = field(default=True, init=False)
    user: ReferenceType[Any] | None = field(default=None, init=False)
    here: str = field(default="true", init=False)
    commits: ClassVar[bool]
    how_lost: ClassVar[str]

    def __post_init__(self) -> None:
        self.pgconn = self.connection.pgconn
        self.args = self.key.sql_arguments
        self.low = signed(self.key.objid, 32)

    def take(self) -> PQGen[bool]:
        """Return whether the lock was granted. Raises InTransaction, PoolerDetected and psycopg's errors."""
        refuse_unless_idle(self.pgconn)
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
    def undo(self) -> PQGen[None]:
        """Release what may be held."""

    @abstractmethod
    def release(self, *, failed: bool) -> PQGen[None]:
        """Release the lock when the job has ended, and what it left is rolled back if it has to be."""

    def rolls_back(self, *, failed: bool) -> bool:
        """Tell, when the job has ended, whether what it left on the connection has to be rolled back."""
        self.left = Status(self.pgconn.transaction_status)
        return self.left == Status.INERROR or (self.left == Status.INTRANS and (failed or not self.commits))

    def check(self) -> PQGen[None]:
        """Raise LockLost unless the lock is held."""
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

    def _select(self, grant: str, stamp: str, second: str, *columns: str) -> str:
        """Return the SQL that takes the lock, and then the stamp: the second modulo 2^32, as int4."""
        stamped = f"{stamp}({self.low}, {second}::bit(32)::int)" if self.stamps else "false"
        case = f"CASE WHEN {grant} THEN {stamped} END"
        return f"SELECT {', '.join((self._label(), 'pg_backend_pid()', case, *columns))}"

    def _label(self) -> str:
        """Return the name as an SQL literal, to be seen in `pg_stat_activity`; NULL if it cannot be sent."""
        info = self.connection.info
        unicode = self.name.isascii() or info.parameter_status("server_encoding") == "UTF8"
        if "\0" in self.name or not (unicode and info.encoding == "utf-8"):
            return "NULL"
        return bytes(Escaping(self.pgconn).escape_literal(self.name.encode())).decode()

    def _timeout(self) -> str:
        milliseconds = min(math.ceil(self.wait / timedelta(milliseconds=1)), _LONGEST_TIMEOUT)
        return f"SELECT set_config('lock_timeout', '{milliseconds}', true)"

    def _lease(self, *, local: bool) -> list[str]:
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
        return [f"SELECT set_config(name, value, {local}) FROM {source}"]  # noqa: S608  (as above)

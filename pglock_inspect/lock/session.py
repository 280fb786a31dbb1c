"""The session-level lock, apart from waiting."""

from __future__ import annotations

from reprlib import repr as shortened
from typing import TYPE_CHECKING

from psycopg.pq import TransactionStatus as Status

from pglock_inspect.errors import InTransaction, PoolerDetected, UncommittedWork
from pglock_inspect.keys import signed
from pglock_inspect.lock.level import SECOND, Level
from pglock_inspect.lock.wire import ask, ask_again

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult


class SessionLevel(Level):
    """Held until it is released or the session ends; the connection is in no transaction meanwhile."""

    commits = False
    how_lost = "something else released it, or a transaction pooler came between (see run_with_xact_lock)"
    stamp: int | None = None

    def _take(self) -> PQGen[bool]:
        if not self.through_pooler:
            self.here = f"pg_backend_pid() = {self.pgconn.backend_pid}"
        if self.wait or self.lease:
            take = [self._timeout(), self._after_waiting()] if self.wait else [self._at_once()]
            row = (yield from ask(self.connection, *self._lease(local=False), *take))[-1]
        else:
            row = yield from self._ask_again((self.name, self.key, self.stamps), lambda _: self._at_once())
        if not row.ntuples:
            self.free = True
            raise PoolerDetected(
                f"a pooler such as PgBouncer makes a session-level lock of {shortened(self.name)} unsafe: "
                "connect directly, use run_with_xact_lock(), or pass pooler='allow' if it pools sessions"
            )
        _, pid, stamped, second = (row.get_value(0, column) for column in range(4))
        self.here = f"pg_backend_pid() = {int(pid or 0)}"
        self.stamp = signed(int(second or 0) & 0xFFFFFFFF, 32) if stamped == b"t" else None
        self.free = stamped is None
        return not self.free

    def _ask_again(
        self, form: Hashable, text: Callable[[str], str], number: int | None = None
    ) -> PQGen[PGresult]:
        if self.through_pooler:  # where what is prepared may outlive the connection
            return (yield from ask(self.connection, text(str(number))))[-1]
        return (yield from ask_again(self.connection, form, text, number))

    def _at_once(self) -> str:
        lock, second = f"pg_try_advisory_lock({self.args})", SECOND.format("now()")
        return f"{self._select(lock, 'pg_try_advisory_lock_shared', second, second)} WHERE {self.here}"

    def _after_waiting(self) -> str:
        """Compute the stamp's second once, and after the wait."""
        lock, second = f"pg_advisory_lock({self.args}) IS NOT NULL", SECOND.format("clock_timestamp()")
        granted = f"SELECT CASE WHEN {lock} THEN {second} END AS second WHERE {self.here} OFFSET 0"
        take = self._select("second IS NOT NULL", "pg_try_advisory_lock_shared", "second", "second")
        return f"{take} FROM ({granted}) AS granted"

    def undo(self) -> PQGen[None]:
        """Release the lock and its stamp if the session has them."""
        in_transaction = self.pgconn.transaction_status in (Status.INTRANS, Status.INERROR)
        stamp = f"{self.low}, objid::bigint::bit(32)::int"
        yield from ask(
            self.connection,
            *(["ROLLBACK"] if in_transaction else []),
            self._held(f"pg_advisory_unlock({self.args})", *self.key, "ExclusiveLock"),
            self._held(f"pg_advisory_unlock_shared({stamp})", self.key.objid, "objid", 2, "ShareLock"),
        )
        self.free = True

    def check(self) -> PQGen[None]:
        """Raise LockLost unless the lock is held; InTransaction where that cannot be asked."""
        if self.pgconn.transaction_status == Status.INERROR:
            raise InTransaction("the connection is in an aborted transaction: roll back, then check the lock")
        yield from super().check()

    def release(self, *, failed: bool) -> PQGen[None]:
        """Raise LockLost and UncommittedWork."""
        row = yield from self._ask_again((self.key, self.stamp is None), self._unlock, self.stamp)
        self.free = True
        if not row.ntuples or row.get_value(0, row.nfields - 1) != b"t":
            raise self._lost()
        if self.left == Status.INTRANS and not failed:
            job = shortened(self.name)
            raise UncommittedWork(
                f"the job {job} left a transaction open, now rolled back: commit in the job"
            )

    def _unlock(self, stamp: str) -> str:
        unlock = f"pg_advisory_unlock({self.args})"
        if self.stamp is not None:
            unlock = f"pg_advisory_unlock_shared({self.low}, {stamp}), {unlock}"
        return f"SELECT {unlock} WHERE {self.here}"

"""The transaction-level lock, apart from waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import errors
from psycopg.pq import TransactionStatus as Status

from pglock_inspect.lock.level import SECOND, Level
from pglock_inspect.lock.wire import ask

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult

_BEGAN = "(extract(epoch FROM now()) * 1000000)::bigint"  # tells a transaction from all others


class TransactionLevel(Level):
    """Held until the transaction that took it ends."""

    commits = True
    how_lost = "a commit, a rollback or an error ended its transaction (leave that to run_with_xact_lock)"
    renewing = False

    def _take(self) -> PQGen[bool]:
        begin = [self._begin(), *self._lease(local=True)]
        before, lock, after = begin, f"pg_try_advisory_xact_lock({self.args})", []
        if self.wait:  # its time-out is not for what the job does later in the transaction
            save = "SELECT set_config('pglock.lock_timeout', current_setting('lock_timeout'), true)"
            before = [*begin, save, self._timeout()]
            lock = f"pg_advisory_xact_lock({self.args}) IS NOT NULL"
            after = ["SELECT set_config('lock_timeout', current_setting('pglock.lock_timeout'), true)"]
        row = (yield from ask(self.connection, *before, self._grant(lock), *after))[len(before)]
        granted = row.get_value(0, 2) is not None
        if granted and row.get_value(0, 4) in {b"repeatable read", b"serializable"}:
            row = yield from self._renew_snapshot(begin)
        self.here = f"{_BEGAN} = {int(row.get_value(0, 3) or 0)}"
        return granted

    def _grant(self, lock: str) -> str:
        second, isolation = SECOND.format("clock_timestamp()"), "current_setting('transaction_isolation')"
        return self._select(lock, "pg_try_advisory_xact_lock_shared", second, _BEGAN, isolation)

    def _renew_snapshot(self, begin: list[str]) -> PQGen[PGresult]:
        """Begin anew: the snapshot is older than the lock, and would hide the work of the last run."""
        self.renewing = True
        results = yield from ask(
            self.connection,
            f"SELECT pg_advisory_lock({self.args})",
            "COMMIT",
            *begin,
            self._grant(f"pg_try_advisory_xact_lock({self.args})"),
            f"SELECT pg_advisory_unlock({self.args})",
        )
        self.renewing = False
        return results[-2]

    def _begin(self) -> str:
        isolation, read_only = self.connection.isolation_level, self.connection.read_only
        words = ["BEGIN"]
        if isolation is not None:
            words.append(f"ISOLATION LEVEL {isolation.name.replace('_', ' ')}")
        if read_only is not None:
            words.append("READ ONLY" if read_only else "READ WRITE")
        if self.connection.deferrable is not None:
            words.append("DEFERRABLE" if self.connection.deferrable else "NOT DEFERRABLE")
        return " ".join(words)

    def undo(self) -> PQGen[None]:
        """Roll back if there is a transaction."""
        if self.pgconn.transaction_status not in (Status.IDLE, Status.UNKNOWN):
            unlock = [f"SELECT pg_advisory_unlock({self.args})"] if self.renewing else []
            yield from ask(self.connection, "ROLLBACK", *unlock)
        self.free = True

    def check(self) -> PQGen[None]:
        """Raise LockLost unless the lock is held."""
        if self.pgconn.transaction_status == Status.INERROR:  # which released it
            raise self._lost()
        yield from super().check()

    def release(self, *, failed: bool) -> PQGen[None]:
        """Commit, or roll back after a failure. Raises LockLost, and psycopg's error if a commit fails."""
        if failed or self.left in (Status.IDLE, Status.INERROR):
            yield from self.undo()
            if self.left == Status.IDLE or not failed:
                raise self._lost()
            return
        try:  # in any other transaction, whose unguarded work is not to be committed, the division fails
            yield from ask(self.connection, f"SELECT 1 / ({self.here})::int", "COMMIT")
        except errors.DivisionByZero:
            yield from self.undo()
            raise self._lost() from None
        self.free = True

"""Reading a server: one warm session, one round trip for each snapshot."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, LiteralString, Self

import psycopg
from msgspec.structs import replace
from psycopg import sql
from psycopg.pq import TransactionStatus

from pglock_inspect.errors import ServerFailure
from pglock_inspect.model import Instant, Server, Snapshot
from pglock_inspect.postgres import rows
from pglock_inspect.postgres.brief import one_round_trip
from pglock_inspect.postgres.connection import APPLICATION_NAME, address, connect, where
from pglock_inspect.postgres.directory import Directory
from pglock_inspect.postgres.failures import failure_of, unlike_postgres
from pglock_inspect.postgres.queries import query
from pglock_inspect.postgres.queue import ask_who_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    from pglock_inspect.model import Database


_FUNCTIONS: Mapping[str, LiteralString] = {
    "locks": "pg_catalog.pg_lock_status()",
    "activity": "pg_catalog.pg_stat_get_activity(NULL)",
    "process": "pg_catalog.pg_stat_get_activity(locks.pid)",
    "prepared": "pg_catalog.pg_prepared_xact()",
}
_VIEWS: Mapping[str, LiteralString] = {
    "locks": "pg_catalog.pg_locks",
    "activity": "pg_catalog.pg_stat_activity",
    "process": "(SELECT * FROM pg_catalog.pg_stat_activity WHERE pid = locks.pid OFFSET 0)",  # after locks
    "prepared": """(SELECT transaction, gid, prepared, pg_roles.oid AS ownerid, pg_database.oid AS dbid
                    FROM pg_catalog.pg_prepared_xacts
                    LEFT JOIN pg_catalog.pg_roles ON rolname = owner
                    LEFT JOIN pg_catalog.pg_database ON datname = database) AS prepared""",
}


class Reader:
    """A session that reads snapshots; not for two threads at once.

    ``statement_timeout`` is in seconds, ``clock`` a monotonic one. Raises `BadConnectionString`, or
    `ServerFailure` where the server cannot be reached or read; then ``usable`` tells whether to go on.
    """

    def __init__(
        self, dsn: str, *, statement_timeout: float = 10.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.target = where(dsn)
        self._clock = clock
        self.connection = connect(dsn)
        self._cursors = [self.connection.cursor(binary=True) for _ in range(3)]
        try:
            self._introduce(statement_timeout)
        except psycopg.Error as error:
            self.close()
            raise self._failure(error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session."""
        self.connection.close()

    @property
    def usable(self) -> bool:
        """Whether there is still a session, and nothing left to do in it."""
        return self.connection.info.transaction_status == TransactionStatus.IDLE

    @property
    def databases(self) -> Mapping[int, Database]:
        """What is known of the databases, by oid, without asking."""
        return self._directory.databases

    def read(self) -> Snapshot:
        """Return a snapshot: the locks, then the sessions, in one round trip."""
        try:
            try:
                return self._read()
            except psycopg.errors.InsufficientPrivilege:
                if self.sources is _VIEWS:
                    raise
                self._use(_VIEWS)  # some managed services let nobody call the functions
                return self._read()
        except psycopg.Error as error:
            raise self._failure(error) from None

    def _failure(self, error: psycopg.Error) -> Exception:
        return failure_of(error, f"read the server at {self.target}", connecting=False)

    def _introduce(self, statement_timeout: float) -> None:
        info = self.connection.info
        self._settings = {
            "statement_timeout": str(round(statement_timeout * 1000)),
            "application_name": APPLICATION_NAME,
            "backend_pid": info.backend_pid,
        }
        server, settings, *_ = self._cursors
        with self.connection.pipeline():
            server.execute(query("server"))
            for name in ("settings", "hand_on", "memory"):
                settings.execute(query(name), self._settings)
        row = server.fetchone()
        if row is None or None in row:
            self.close()
            raise unlike_postgres(f"read the server at {self.target}")
        version, number, database, role, pid, started_at, connections, per_transaction, prepared = row
        self.target = address(info.host or info.hostaddr, info.port)
        self._pooled = info.backend_pid != pid
        if self._pooled:  # what one session has prepared would meet another client
            self.connection.prepare_threshold = None
        self._reads_prepared = prepared > 0
        self._server = Server(
            version=rows.text(version).split()[0],
            version_num=number,
            database=rows.text(database),
            role=rows.text(role),
            pooler=True if self._pooled else None,
            started_at=Instant(started_at),
            max_connections=connections,
            lock_slots_guaranteed=per_transaction * (connections + prepared),
        )
        self._use(_FUNCTIONS)
        self._directory = Directory(self.connection, self._settings_of_its_own, self._clock)
        self._locks = rows.LockDecoder()
        self._sessions = rows.SessionDecoder()

    def _read(self) -> Snapshot:
        locks, activity, prepared = self._cursors
        asked_at = self._clock()
        with one_round_trip(self.connection), self._settings_of_its_own():
            self._execute(locks, "locks")
            self._execute(activity, "activity")
            if self._reads_prepared:
                self._execute(prepared, "prepared")
        answered_at = self._clock()
        lock_rows, session_rows = locks.fetchall(), activity.fetchall()
        prepared_rows = prepared.fetchall() if self._reads_prepared else []
        if not lock_rows:
            raise ServerFailure(
                f"cannot read the server at {self.target}: pg_locks shows nothing, not even this session; "
                "ask PostgreSQL itself, since what answers here has no lock table to read",
                "other",
            )
        *_, taken_at, in_recovery = lock_rows[0]
        held = self._locks.advisory(lock_rows)
        self._directory.refresh_for(held, session_rows)
        if self._directory.orphaned:  # nobody's activity is shown to it again, be there another of its name
            self.close()
            raise ServerFailure(
                f"cannot read the server at {self.target}: the role of this session was dropped; "
                "create it again, or connect as another",
                "auth",
            )
        sessions = self._sessions.sessions(session_rows, self._directory)
        other_waits = rows.other_waits(lock_rows)
        return Snapshot(
            taken_at=taken_at,
            asked_at=asked_at,
            answered_at=answered_at,
            server=replace(self._server, in_recovery=in_recovery, privileged=self._directory.privileged),
            locks=held,
            sessions=sessions,
            prepared=rows.prepared(lock_rows, prepared_rows, self._directory),
            databases=self._directory.databases,
            other_waits=other_waits,
            blocking=ask_who_blocks(locks, held, other_waits),
            lock_table_rows=rows.slots(lock_rows),
            poll_seconds=self._clock() - asked_at,
        )

    @contextmanager
    def _settings_of_its_own(self) -> Iterator[None]:
        """Put the statements into a transaction where a pooler must not keep their settings."""
        if not self._pooled:
            yield
            return
        with self.connection.transaction():
            self.connection.execute(query("settings"), self._settings)
            yield

    def _execute(self, cursor: psycopg.Cursor[Any], name: str) -> None:
        cursor.execute(self._statements[name], prepare=not self._pooled)

    def _use(self, sources: Mapping[str, LiteralString]) -> None:
        """Compose the statements for this server's version, from functions or from views."""
        waitstart = "waitstart" if self._server.shows_waitstart else "NULL::timestamptz"
        composed = {"waitstart": waitstart, **sources}
        self.sources = sources
        self._statements = {
            name: sql.SQL(query(name)).format(**{k: sql.SQL(v) for k, v in composed.items()})
            for name in ("locks", "activity", "prepared")
        }

"""Where a fault happens: a server, the way on which it is watched, and a worker that holds a lock there."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import make_conninfo

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pglock_inspect.demo.server import TemporaryServer
    from tests.support.servers import Connection

OBSERVERS = "FROM pg_stat_activity WHERE application_name = 'pglock-inspect'"

_HELD = "SELECT FROM pg_stat_activity WHERE application_name = 'worker' AND pid = %s"


class Stage(ExitStack):
    """A context manager; the observers get to the server by `dsn`, the worker by `dsn_of_workers`.

    The worker holds the lock of `job`, which it takes with `statement`. The observers that go on have so many
    `sessions`.
    """

    sessions = 3
    worker: Connection

    def __init__(self, server: TemporaryServer, dsn: str | None = None) -> None:
        super().__init__()
        self.server = server
        self.dsn = make_conninfo(dsn or server.dsn(), connect_timeout=2)
        self.dsn_of_workers = server.dsn(application_name="worker")
        self.job = "nightly"
        self.statement = b"SELECT pg_advisory_lock(hashtext('nightly'))"

    def hold(self) -> None:
        """Have a new worker hold the lock."""
        self.worker = self.enter_context(psycopg.connect(self.dsn_of_workers, autocommit=True))
        assert self.worker.pgconn.exec_(self.statement).error_message == b""

    def is_held(self) -> bool:
        """Whether the worker's session goes on, found out without its help: that would be a sign of life."""
        with self.look() as connection:
            return connection.execute(_HELD, [self.worker.info.backend_pid]).fetchone() is not None

    def look(self) -> Connection:
        """Return a new session beside the worker's."""
        return psycopg.connect(self.dsn_of_workers, application_name="test")

    def admin(self) -> Connection:
        """Return a session of the superuser that is closed after the test."""
        return self.enter_context(psycopg.connect(self.server.dsn(), autocommit=True))

    def wait_for_sessions(self) -> None:
        """Wait until the observers have their sessions, and no forgotten ones beside them."""
        with self.look() as connection:
            connection.autocommit = True
            count = f"SELECT count(*) {OBSERVERS}".encode()
            wait_until(
                lambda: connection.execute(count).fetchone() == (self.sessions,),
                "no more sessions",
                timeout=90,
            )

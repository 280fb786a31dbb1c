"""What a reader shows of the server under test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.postgres import Reader
from tests.support.waiting import wait_until
from tests.support.watching import begin

if TYPE_CHECKING:
    import psycopg
    import pytest

    from pglock_inspect.keys import Value
    from pglock_inspect.model import LockRows, Snapshot
    from tests.support.servers import Connection


def read_once(dsn: str) -> Snapshot:
    """What a reader shows that connects for this alone."""
    with Reader(dsn) as reader:
        return reader.read()


def key(value: Value) -> AdvisoryKey:
    return AdvisoryKey.from_value(value)


def rows_of(snapshot: Snapshot, holder: Connection | int | None, *, granted: bool = True) -> list[LockRows]:
    """The rows of a session, a pid or, with None, of all prepared transactions."""
    pid = holder if holder is None or isinstance(holder, int) else holder.info.backend_pid
    return [rows for rows in snapshot.locks if rows.pid == pid and rows.granted is granted]


def keys_of(
    snapshot: Snapshot, holder: Connection | int | None, *, granted: bool = True
) -> set[tuple[AdvisoryKey, str]]:
    """The keys of a session, with their modes."""
    return {
        (rows.key(packed), rows.mode)
        for rows in rows_of(snapshot, holder, granted=granted)
        for packed in rows.keys
    }


def sleep_before_activity(patch: pytest.MonkeyPatch) -> None:
    """Make every reader sleep for a minute between its statements."""
    execute = Reader._execute

    def sleep_first(self: Reader, cursor: psycopg.Cursor[Any], name: str) -> None:
        if name == "activity":
            self.connection.execute("SELECT pg_sleep(60)")
        execute(self, cursor, name)

    patch.setattr(Reader, "_execute", sleep_first)


def begin_waiting(connection: Connection, statement: str, janitor: Connection) -> None:
    """Send a statement, and return once its session waits for a lock."""
    begin(connection, statement)
    waits = "SELECT FROM pg_locks WHERE pid = %s AND NOT granted"
    pid = connection.info.backend_pid
    wait_until(lambda: janitor.execute(waits, [pid]).fetchone() is not None, f"pid {pid} waits: {statement}")

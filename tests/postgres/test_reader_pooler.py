"""A reader behind PgBouncer: it says so, and leaves nothing behind on sessions that others use after it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pglock_inspect.config import Settings
from pglock_inspect.errors import ServerFailure
from pglock_inspect.postgres import Reader
from pglock_inspect.watch import Watcher
from tests.support.pooler import pgbouncer
from tests.support.snapshots import begin_waiting, key, keys_of, sleep_before_activity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect, Connection

pytestmark = pytest.mark.requires("pgbouncer")

State = dict[str, Any]


@contextmanager
def client(dsn: str) -> Iterator[Connection]:
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=None) as connection:
        yield connection


def state(connection: Connection) -> State:
    """What a client finds on the server's session that it is given."""
    settings = connection.execute("SELECT name, setting FROM pg_settings").fetchall()
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (None,)
    (prepared,) = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() or (None,)
    (locks,) = connection.execute(
        "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
    ).fetchone() or (None,)
    return {**dict(settings), "the pid": pid, "prepared statements": prepared, "advisory locks": locks}


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler_is_noticed(dsn: str, mode: Any) -> None:  # noqa: ANN401
    with pgbouncer(dsn, mode) as through, Reader(through) as reader:
        assert reader.read().server.pooler is True
    with Reader(dsn) as reader:
        assert reader.read().server.pooler is None


@pytest.mark.parametrize("bystander", ["connected before", "connects after"])
def test_nothing_is_left_on_a_session_that_another_client_gets(dsn: str, bystander: str) -> None:
    with pgbouncer(dsn, "transaction", pool_size=1) as through:
        with client(through) as untouched:
            before = state(untouched)
            if bystander == "connected before":
                with Reader(through) as reader:
                    for _ in range(7):  # psycopg prepares what it has seen five times
                        assert len(reader.read().sessions) > 1
                        assert state(untouched) == before
                assert state(untouched) == before
        if bystander == "connects after":
            with Reader(through) as reader:
                for _ in range(7):
                    reader.read()
            with client(through) as after:
                assert state(after) == before


def test_it_reads_as_well_as_without(dsn: str, connect: Connect, janitor: Connection) -> None:
    holder, first, second, preparer = connect("holder"), connect(), connect(), connect()
    holder.execute("SELECT pg_advisory_lock(1)")
    begin_waiting(first, "SELECT pg_advisory_lock(1)", janitor)
    begin_waiting(second, "SELECT pg_advisory_lock(1)", janitor)
    preparer.execute("BEGIN")
    preparer.execute("SELECT pg_advisory_xact_lock(2)")
    preparer.execute("PREPARE TRANSACTION 'left'")
    with pgbouncer(dsn, "transaction", pool_size=2) as through, Reader(through) as reader:
        for _ in range(3):
            snapshot = reader.read()
            assert keys_of(snapshot, holder) == {(key(1), "ExclusiveLock")}
            assert keys_of(snapshot, None) == {(key(2), "ExclusiveLock")}
            assert snapshot.sessions[holder.info.backend_pid].application_name == "holder"
            assert [prepared.gid for prepared in snapshot.prepared.values()] == ["left"]
            assert snapshot.blocking.keys() == {first.info.backend_pid, second.info.backend_pid}
        holder.execute("SELECT pg_advisory_unlock(1)")
        assert keys_of(reader.read(), holder) == set()


def test_its_settings_hold_while_it_reads(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: dict[str, str] = {}
    execute = Reader._execute

    def look(self: Reader, cursor: psycopg.Cursor[Any], name: str) -> None:
        if name == "locks":
            for setting in ("statement_timeout", "lock_timeout", "transaction_read_only", "work_mem"):
                row = self.connection.execute("SELECT current_setting(%s)", [setting]).fetchone()
                assert row is not None
                shown[setting] = bytes(row[0]).decode()
        execute(self, cursor, name)

    monkeypatch.setattr(Reader, "_execute", look)
    with pgbouncer(dsn, "transaction") as through, Reader(through, statement_timeout=7.5) as reader:
        reader.read()
    assert shown == {
        "statement_timeout": "7500ms",
        "lock_timeout": "1s",
        "transaction_read_only": "on",
        "work_mem": "64MB",
    }


def test_a_poll_that_fails_leaves_the_session_to_others_in_order(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pgbouncer(dsn, "transaction") as through, client(through) as untouched:
        before = state(untouched)
        with Reader(through, statement_timeout=0.2) as reader:
            with monkeypatch.context() as patch:
                sleep_before_activity(patch)
                with pytest.raises(ServerFailure, match="statement timeout"):
                    reader.read()
            assert state(untouched) == before
            assert reader.read().sessions
        assert state(untouched) == before


def test_a_watcher_with_all_its_questions_leaves_nothing_either(dsn: str, connect: Connect) -> None:
    connect().execute("SELECT pg_advisory_lock(1)")
    settings = Settings(names_query="SELECT 'nightly'", read_tables=True)
    with pgbouncer(dsn, "transaction") as through, client(through) as untouched:
        before = state(untouched)
        seconds = 0.0
        with Watcher(through, settings, clock=lambda: seconds) as watcher:
            for _ in range(7):
                report = watcher.poll()
                assert report.error is None
                assert report.server is not None
                assert report.server.pooler is True
                assert [lock.key for lock in report.locks] == [key(1)]
                assert state(untouched) == before
                seconds += 400  # all that is asked now and then is due again


def test_a_locked_catalog_holds_a_poll_up_for_a_moment_only(dsn: str, connect: Connect) -> None:
    vandal, worker = connect(), connect()
    worker.execute("SELECT pg_advisory_lock(1)")
    seconds = 0.0
    with pgbouncer(dsn, "transaction") as through, Reader(through, clock=lambda: seconds) as reader:
        reader.read()
        vandal.execute("BEGIN")
        vandal.execute("LOCK TABLE pg_authid, pg_database")
        seconds += 100
        assert keys_of(reader.read(), worker) == {(key(1), "ExclusiveLock")}

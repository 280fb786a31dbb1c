"""What a role may see that is nobody in particular, and where it may not call the functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pglock_inspect.errors import ServerFailure
from pglock_inspect.postgres import Reader
from tests.support.snapshots import begin_waiting, key, keys_of, read_once, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.demo.server import TemporaryServer
    from tests.support.servers import Connect, Connection, StartServer
    from tests.support.watching import Watch

EXCLUSIVE = "ExclusiveLock"


@pytest.fixture
def nobody(janitor: Connection) -> Iterator[str]:
    """A role with no privileges."""
    janitor.execute("CREATE ROLE pglock_nobody LOGIN")
    yield "pglock_nobody"
    janitor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pglock_nobody'")
    janitor.execute("DROP ROLE pglock_nobody")


def as_user(dsn: str, user: str) -> str:
    return make_conninfo(dsn, user=user)


def test_other_users_locks_are_there_and_what_their_sessions_do_is_not(
    connect: Connect, dsn: str, nobody: str
) -> None:
    worker, own = connect("worker"), connect("own", user=nobody)
    worker.execute("SELECT pg_advisory_lock(1)")
    own.execute("SELECT pg_advisory_lock(2)")
    snapshot = read_once(as_user(dsn, nobody))
    assert not snapshot.server.privileged
    assert keys_of(snapshot, worker) == {(key(1), EXCLUSIVE)}
    hidden, shown = (snapshot.sessions[connection.info.backend_pid] for connection in (worker, own))
    assert (hidden.database, hidden.user, hidden.application_name) == ("postgres", "postgres", "worker")
    unknown = (hidden.client, hidden.state, hidden.backend_start, hidden.xact_start, hidden.query_start)
    assert unknown == (None, None, None, None, None)
    assert (hidden.state_change, hidden.wait_event, hidden.backend_type, hidden.query) == (None,) * 4
    assert not hidden.idle
    assert shown.query == "SELECT pg_advisory_lock(2)"
    assert shown.idle
    assert shown.backend_start is not None
    assert shown.client is not None


@pytest.mark.parametrize("granted", ["pg_monitor", "pg_read_all_stats"])
def test_pg_monitor_or_what_it_contains_shows_all(
    connect: Connect, dsn: str, janitor: Connection, nobody: str, granted: str
) -> None:
    worker = connect("worker")
    worker.execute("SELECT pg_advisory_lock(1)")
    janitor.execute(f"GRANT {granted} TO {nobody}")
    snapshot = read_once(as_user(dsn, nobody))
    assert snapshot.server.privileged
    assert snapshot.sessions[worker.info.backend_pid].query == "SELECT pg_advisory_lock(1)"


def test_what_is_granted_or_revoked_meanwhile_is_noticed(dsn: str, janitor: Connection, nobody: str) -> None:
    seconds = 0.0
    with Reader(as_user(dsn, nobody), clock=lambda: seconds) as reader:
        assert not reader.read().server.privileged
        for change, privileged in (("GRANT pg_monitor TO", True), ("REVOKE pg_monitor FROM", False)):
            janitor.execute(f"{change} {nobody}".encode())
            seconds += 6
            assert reader.read().server.privileged is privileged


def test_a_session_whose_role_was_dropped_is_given_up(dsn: str, janitor: Connection, nobody: str) -> None:
    """Another role of the same name helps it no more: it would stay blind for ever."""
    seconds = 0.0
    with Reader(as_user(dsn, nobody), clock=lambda: seconds) as reader:
        reader.read()
        janitor.execute(f"DROP ROLE {nobody}")
        janitor.execute(f"CREATE ROLE {nobody} LOGIN IN ROLE pg_monitor")
        seconds += 61
        with pytest.raises(ServerFailure, match="the role of this session was dropped; create it") as failure:
            reader.read()
        assert failure.value.reason == "auth"
        assert not reader.usable
    assert read_once(as_user(dsn, nobody)).server.privileged


def test_waiters_queues_and_the_server_are_there_for_anybody(
    connect: Connect, dsn: str, janitor: Connection, nobody: str
) -> None:
    holder, first, second = connect(), connect(), connect()
    holder.execute("SELECT pg_advisory_lock(1)")
    begin_waiting(first, "SELECT pg_advisory_lock(1)", janitor)
    begin_waiting(second, "SELECT pg_advisory_lock(1)", janitor)
    snapshot = read_once(as_user(dsn, nobody))
    assert snapshot.blocking[second.info.backend_pid] == (holder.info.backend_pid, first.info.backend_pid)
    (rows,) = rows_of(snapshot, second, granted=False)
    assert (rows.waitstart is not None) == snapshot.server.shows_waitstart
    assert snapshot.server.started_at is not None


def test_a_prepared_transaction_is_there_for_anybody(connect: Connect, dsn: str, nobody: str) -> None:
    worker = connect()
    worker.execute("BEGIN")
    worker.execute("SELECT pg_advisory_xact_lock(1)")
    worker.execute("PREPARE TRANSACTION 'left'")
    (prepared,) = read_once(as_user(dsn, nobody)).prepared.values()
    assert (prepared.gid, prepared.owner) == ("left", "postgres")


def test_the_finding_about_it_is_told_once(connect: Connect, dsn: str, nobody: str, watch: Watch) -> None:
    for number in range(3):
        connect().execute("SELECT pg_advisory_lock(%s)", [number])
    connect(user=nobody).execute("SELECT pg_advisory_lock(4)")
    report = watch(dsn=as_user(dsn, nobody)).poll()
    (finding,) = [each for each in report.findings if each.rule == "no-pg-monitor"]
    assert finding.severity == "info"
    assert finding.evidence == "3 of 4 holders hidden"
    assert "GRANT pg_monitor TO" in finding.suggestion
    assert not [each for each in watch(dsn=dsn).poll().findings if each.rule == "no-pg-monitor"]


@pytest.fixture
def closed_server(start_server: StartServer) -> TemporaryServer:
    """A server like a managed one: nobody may call the functions, and the views show what they ever did."""
    server = start_server({"allow_system_table_mods": "on"})
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE ROLE pglock_nobody LOGIN")
        connection.execute("CREATE SCHEMA provider")
        connection.execute("GRANT USAGE ON SCHEMA provider TO PUBLIC")
        for view in ("pg_locks", "pg_stat_activity", "pg_prepared_xacts"):
            definition = connection.execute("SELECT pg_get_viewdef(%s::regclass)", [view]).fetchone()
            assert definition is not None
            connection.execute(
                sql.SQL(
                    "CREATE FUNCTION provider.{view}() RETURNS SETOF pg_catalog.{view} "
                    "LANGUAGE sql SECURITY DEFINER AS {definition}"
                ).format(view=sql.Identifier(view), definition=sql.Literal(definition[0]))
            )
            connection.execute(
                f"CREATE OR REPLACE VIEW pg_catalog.{view} AS SELECT * FROM provider.{view}()".encode()
            )
        for function in ("pg_lock_status()", "pg_stat_get_activity(int)", "pg_prepared_xact()"):
            connection.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC".encode())
    return server


def test_where_the_functions_are_closed_the_views_are_read(closed_server: TemporaryServer) -> None:
    dsn = closed_server.dsn(user="pglock_nobody")
    with (
        psycopg.connect(closed_server.dsn(application_name="worker"), autocommit=True) as worker,
        psycopg.connect(closed_server.dsn(), autocommit=True) as preparer,
        psycopg.connect(dsn, autocommit=True) as own,
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            own.execute("SELECT FROM pg_lock_status()")
        worker.execute("SELECT pg_advisory_lock(1)")
        preparer.execute("BEGIN")
        preparer.execute("SELECT pg_advisory_xact_lock(2)")
        preparer.execute("PREPARE TRANSACTION 'left'")
        with Reader(dsn) as reader:
            for _ in range(2):
                snapshot = reader.read()
                assert keys_of(snapshot, worker) == {(key(1), EXCLUSIVE)}
                assert keys_of(snapshot, None) == {(key(2), EXCLUSIVE)}
                assert snapshot.sessions[worker.info.backend_pid].application_name == "worker"
                (prepared,) = snapshot.prepared.values()
                assert (prepared.gid, prepared.owner, prepared.database) == ("left", "postgres", "postgres")


def test_a_server_that_shows_no_locks_at_all_is_not_taken_for_an_idle_one(
    closed_server: TemporaryServer,
) -> None:
    """As some do that speak the protocol: a session of PostgreSQL holds a lock while it looks."""
    with psycopg.connect(closed_server.dsn(), autocommit=True) as connection:
        connection.execute(
            "CREATE OR REPLACE VIEW pg_catalog.pg_locks AS SELECT * FROM provider.pg_locks() WHERE false"
        )
    with (
        Reader(closed_server.dsn(user="pglock_nobody")) as reader,
        pytest.raises(ServerFailure, match="pg_locks shows nothing, not even this session") as failure,
    ):
        reader.read()
    assert failure.value.reason == "other"


def test_where_the_views_are_closed_too_that_is_said(closed_server: TemporaryServer) -> None:
    with psycopg.connect(closed_server.dsn(), autocommit=True) as connection:
        connection.execute("REVOKE SELECT ON pg_catalog.pg_locks FROM PUBLIC")
    with (
        Reader(closed_server.dsn(user="pglock_nobody")) as reader,
        pytest.raises(ServerFailure, match="permission denied for view pg_locks") as failure,
    ):
        reader.read()
    assert failure.value.reason == "other"

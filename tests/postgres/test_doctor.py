"""What is measured of real servers, poolers and roles."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import psycopg
import pytest
from psycopg import sql

from pglock_inspect.config import Settings
from pglock_inspect.doctor import Case, Check, examine
from pglock_inspect.errors import ServerFailure
from pglock_inspect.model import Job
from pglock_inspect.postgres import exclusion
from pglock_inspect.postgres.examine import measure
from pglock_inspect.schemes import key_of
from pglock_inspect.watch import Watcher
from tests.support.pooler import pgbouncer
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.doctor import Measured
    from tests.support.servers import Connect, Connection, Server, StartServer

SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pglock-inspect'"
ADVISORY = "SELECT pid, mode FROM pg_locks WHERE locktype = 'advisory'"


def checks(dsn: str, measured: Measured | None = None, *, jobs: tuple[Job, ...] = ()) -> dict[str, Check]:
    """All checks by name, as the command makes them."""
    measured = measured or measure(dsn)
    with Watcher(dsn, Settings(jobs=jobs)) as watcher:
        return {check.name: check for check in examine(Case(measured, watcher.poll()))}


def test_two_sessions_exclude_each_other_and_nothing_is_left(dsn: str, janitor: Connection) -> None:
    measured = measure(dsn)
    assert [(trial.level, trial.first, trial.second) for trial in measured.exclusion.trials] == [
        ("session", True, False),
        ("transaction", True, False),
    ]
    assert measured.shared is False
    assert measured.pid == measured.login_pid
    wait_until(lambda: not janitor.execute(SESSIONS).fetchall(), "its sessions are gone")
    assert not janitor.execute(ADVISORY).fetchall()
    found = checks(dsn, measured)
    for name in ("reading", "self-test", "pooler", "standby", "visibility", "signals", "activity", "clock"):
        assert found[name].grade == "ok", found[name]
    assert found["version"].value.startswith("PostgreSQL ")
    assert len(found) == 16


@pytest.fixture
def impostor(server: Server, database: str) -> Iterator[Connection]:
    """A session in a database whose functions can be replaced."""
    with psycopg.connect(server.dsn(dbname=database), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("levels", [["session"], ["session", "transaction"]])
def test_stubs_that_exclude_nobody_are_unmasked(
    server: Server, database: str, impostor: Connection, levels: list[str]
) -> None:
    stub = "CREATE OR REPLACE FUNCTION pg_catalog.{}(bigint) RETURNS bool LANGUAGE sql AS 'SELECT true'"
    functions = {"session": "pg_try_advisory_lock", "transaction": "pg_try_advisory_xact_lock"}
    for level in levels:
        impostor.execute(sql.SQL(stub).format(sql.Identifier(functions[level])))
    check = checks(server.dsn(dbname=database))["self-test"]
    problem = "two sessions got the same {}-level lock: it excludes nobody"
    assert (check.grade, check.value) == ("failure", "; ".join(map(problem.format, levels)))


def test_functions_that_are_missing_are_a_failure(
    server: Server, database: str, impostor: Connection
) -> None:
    impostor.execute("ALTER FUNCTION pg_catalog.pg_try_advisory_lock(bigint) RENAME TO gone")
    check = checks(server.dsn(dbname=database))["self-test"]
    assert check.grade == "failure"
    assert "pg_try_advisory_lock" in check.value
    assert "does not exist" in check.value


@pytest.mark.requires("pgbouncer")
@pytest.mark.parametrize(
    ("mode", "pool_size", "expected"),
    [
        ("session", 2, (False, "warning", "ok")),
        ("transaction", 2, (True, "failure", "ok")),
        ("transaction", 1, (True, "failure", "warning")),  # there is no second session
        ("session", 1, (None, "warning", "warning")),
        ("statement", 2, (None, "warning", "warning")),  # there is no transaction
    ],
)
def test_a_pooler_is_told_and_nothing_is_left_on_its_sessions(
    dsn: str,
    janitor: Connection,
    mode: Literal["session", "transaction", "statement"],
    pool_size: int,
    expected: tuple[bool | None, str, str],
) -> None:
    with pgbouncer(dsn, mode, pool_size=pool_size) as through:
        begun = time.monotonic()
        measured = measure(through, patience=0.5)
        assert time.monotonic() - begun < 5
        found = checks(through, measured)
        assert (measured.shared, found["pooler"].grade, found["self-test"].grade) == expected
        assert not janitor.execute(ADVISORY).fetchall()


@pytest.mark.requires("pgbouncer")
def test_a_session_that_is_given_up_is_not_taken_for_one_that_is_shared(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a pooler has a moment to hand it on, before the other connection is broken off too."""
    at_once = exclusion._hang_up

    def slowly(*connections: Connection) -> None:
        for connection in connections:
            at_once(connection)
            time.sleep(0.5)

    monkeypatch.setattr(exclusion, "_hang_up", slowly)
    with pgbouncer(dsn, "session", pool_size=1) as through:
        assert measure(through, patience=0.2).shared is None


@pytest.fixture
def role(janitor: Connection) -> Iterator[str]:
    """A role that needs quotes, may do nothing, and has settings of its own."""
    janitor.execute('CREATE ROLE "pglock nobody" LOGIN')
    janitor.execute("""ALTER ROLE "pglock nobody" SET lock_timeout = '7s'""")
    yield "pglock nobody"
    janitor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pglock nobody'")
    janitor.execute('DROP ROLE "pglock nobody"')


def test_a_role_without_any_right_is_told_what_to_grant(
    role: str, connect: Connect, janitor: Connection
) -> None:
    dsn = connect("login", user=role).info.dsn
    found = checks(dsn)
    assert found["self-test"].grade == "ok"
    assert found["visibility"].grade == "warning"
    fix = found["visibility"].fix
    assert fix == 'GRANT pg_monitor TO "pglock nobody"'
    assert "may end its own sessions only" in found["signals"].value
    assert found["wait-time-outs"].value.startswith(
        "lock_timeout = 7 s, lock_timeout=7s for role pglock nobody: a pg_advisory_lock() that fails"
    )
    janitor.execute(fix.encode())
    janitor.execute('GRANT pg_signal_backend TO "pglock nobody"')
    found = checks(dsn)
    assert found["visibility"].grade == "ok"
    assert "may end sessions of other roles" in found["signals"].value
    assert "lock_timeout=7s for role pglock nobody" in checks(janitor.info.dsn)["wait-time-outs"].value


def test_without_a_second_connection_the_server_says_why(
    role: str, connect: Connect, janitor: Connection
) -> None:
    login = connect("login", user=role)
    dsn = login.info.dsn
    login.close()
    janitor.execute('ALTER ROLE "pglock nobody" CONNECTION LIMIT 1')
    sessions = "SELECT FROM pg_stat_activity WHERE usename = 'pglock nobody'"
    wait_until(lambda: not janitor.execute(sessions).fetchall(), "the login is gone")
    exclusion = measure(dsn).exclusion
    assert exclusion.problem
    assert 'too many connections for role "pglock nobody"' in exclusion.problem


def test_settings_are_those_that_sessions_begin_with(start_server: StartServer) -> None:
    server = start_server({"max_connections": 20, "superuser_reserved_connections": 2})
    socket = server.dsn(host=str(server.directory))
    with psycopg.connect(server.dsn(), autocommit=True) as worker:
        worker.execute("SELECT pg_advisory_lock(1)")
        over_tcp, over_a_socket = checks(server.dsn()), checks(socket)
        assert over_tcp["connections"].value == "2 of 18 taken"
        assert over_tcp["lock-table"].value.startswith("1 of ")
        # The kernel was asked, or could not be asked.
        assert over_tcp["dead-client"].grade == over_a_socket["dead-client"].grade == "warning"
        assert "as Linux does unless told otherwise" not in over_tcp["dead-client"].value
        assert over_a_socket["dead-client"].value == (
            "a lock whose client vanished lives up to 2 h 11 min (keepalives after 7200 s, then 9 times "
            "every 75 s, as Linux does unless told otherwise)"
        )
        for setting in (
            *("tcp_keepalives_idle = 20", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 4"),
            *("tcp_user_timeout = '40s'", "track_activities = off"),
            "idle_in_transaction_session_timeout = '1min'",
        ):
            worker.execute(f"ALTER SYSTEM SET {setting}".encode())
        worker.execute("SELECT pg_reload_conf()")
        wait_until(lambda: checks(server.dsn())["activity"].grade == "warning", "the settings are loaded")
        over_tcp, over_a_socket = checks(server.dsn()), checks(socket)
    assert over_tcp["dead-client"] == over_a_socket["dead-client"]
    assert over_tcp["dead-client"].grade == "ok"
    assert over_tcp["dead-client"].value == (
        "a lock whose client vanished lives up to 40 s (keepalives after 20 s, then 4 times every 5 s; "
        "idle_in_transaction_session_timeout = 1 min)"
    )
    assert over_tcp["idle-time-outs"] == Check(
        "idle-time-outs", "ok", "idle_in_transaction_session_timeout = 1 min; no holder of a lock is idle now"
    )


@pytest.mark.postgres(14)
def test_an_idle_holder_under_a_time_out_is_in_danger(
    role: str, connect: Connect, janitor: Connection
) -> None:
    janitor.execute("""ALTER ROLE "pglock nobody" SET idle_session_timeout = '10min'""")
    holder = connect("holder", user=role)
    holder.execute("SELECT pg_advisory_lock(1)")
    check = checks(holder.info.dsn)["idle-time-outs"]
    assert check.grade == "warning"
    assert "idle_session_timeout = 10 min" in check.value
    assert "1 holder of locks is idle now" in check.value


def test_a_clock_that_is_off_is_told(dsn: str) -> None:
    found = checks(dsn, measure(dsn, wall=lambda: time.time() - 30.5))["clock"]
    assert found.grade == "warning"
    assert found.value.startswith("the server's is 30 s ahead of the one here")


def test_jobs_that_collide_are_told(dsn: str) -> None:
    assert checks(dsn)["collisions"].value == "no job is configured"
    jobs = (Job("nightly"), Job("hourly"))
    assert checks(dsn, jobs=jobs)["collisions"].value == "2 jobs are configured, no two with the same key"
    check = checks(dsn, jobs=(*jobs, Job("twin", key=key_of("nightly", "hashtext"))))["collisions"]
    assert check.grade == "warning"
    assert check.value.startswith("nightly and twin have the same key")


def test_a_server_that_is_away_raises() -> None:
    with pytest.raises(ServerFailure, match=r"cannot connect to 127\.0\.0\.1:1: "):
        measure("host=127.0.0.1 port=1")

"""Targets that restart, crash, freeze, fill up or let nobody in, without any harm to the others."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import psycopg
import pytest
from msgspec.structs import replace

from pglock_inspect.durations import parse_duration
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job
from pglock_inspect.postgres import connection
from pglock_inspect.present.metrics import GAUGES
from tests.support.fleets import watched
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pglock_inspect.demo.server import TemporaryServer
    from tests.support.fleets import Watched
    from tests.support.servers import Connect, Connection, StartServer

NIGHTLY = Job("nightly", key=AdvisoryKey.from_bigint(7))
NAMED = {"database": "postgres", "name": "nightly"}
HOLDS = "pglock_job_observed_holds_total"
HOLDS_ENDED = "pglock_job_observed_hold_seconds_count"


@pytest.fixture
def own_server(start_server: StartServer) -> TemporaryServer:
    return start_server()


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    with Proxy(dsn) as proxy:
        yield proxy


def holder(connect: Connect) -> Connection:
    connection = connect()
    connection.execute("SELECT pg_advisory_lock(7)")
    return connection


def sessions(janitor: Connection) -> int:
    """How many sessions of ours there are."""
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pglock-inspect'"
    (number,) = janitor.execute(ours).fetchall()[0]
    return int(number)


def await_polls(here: Watched, number: int) -> None:
    seen = set()

    def seen_all() -> bool:
        seen.add(here.report().read_at)
        return len(seen) > number

    wait_until(seen_all, f"{number} polls", timeout=60)


def assert_nothing_stale(here: Watched, target: str = "here") -> None:
    names = here.names(target)
    assert names.isdisjoint({gauge.name for gauge in GAUGES})
    assert {"pglock_up", "pglock_poll_failures_total"} <= names


def test_a_release_leaves_no_number_behind(connect: Connect, dsn: str) -> None:
    with watched(NIGHTLY, here=dsn) as here:
        here.await_value("pglock_job_held", 0.0, database="", name="nightly")
        connection = holder(connect)
        here.await_value("pglock_job_held", 1.0, **NAMED)
        assert here.value("pglock_job_held", database="", name="nightly") is None
        here.await_value("pglock_locks", 1.0, database="postgres", state="held")
        connection.execute("SELECT pg_advisory_unlock(7)")
        here.await_value("pglock_locks", 0.0, database="postgres", state="held")
        assert here.value("pglock_job_held", **NAMED) is None
        assert here.value("pglock_job_held_seconds", database="", name="nightly") == 0
        assert here.value(HOLDS, **NAMED) == 1
        assert here.value(HOLDS_ENDED, **NAMED) == 1
        assert not here.told


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_server_that_was_away_is_watched_again(own_server: TemporaryServer, how: str) -> None:
    with watched(NIGHTLY, here=own_server.dsn()) as here, ExitStack() as connections:

        def hold() -> None:
            connection = psycopg.connect(own_server.dsn(), autocommit=True)
            connections.callback(connection.close)
            connection.execute("SELECT pg_advisory_lock(7)")

        hold()
        here.await_value(HOLDS, 1.0, **NAMED)
        before = here.value("pglock_last_poll_timestamp_seconds")
        assert before
        (own_server.kill if how == "crash" else own_server.stop)()
        here.await_value("pglock_up", 0.0)
        assert_nothing_stale(here)
        last = here.value("pglock_last_poll_timestamp_seconds")
        assert last
        assert last >= before
        wait_until(lambda: here.value("pglock_poll_failures_total", reason="connect"), "it is tried again")
        assert here.value("pglock_last_poll_timestamp_seconds") == last
        assert here.value(HOLDS, **NAMED) == 1
        own_server.start()
        here.await_value("pglock_up", 1.0)
        hold()
        here.await_value(HOLDS, 2.0, **NAMED)
        assert here.value(HOLDS_ENDED, **NAMED) == 1
        assert here.value("pglock_poll_failures_total", reason="connect")
    assert here.told[0].startswith("here: cannot ")
    assert here.told[-1].startswith("here: can be read again, after ")


def test_the_primary_that_answers_after_a_failover_is_watched(own_server: TemporaryServer) -> None:
    with own_server.standby() as standby:
        both = own_server.dsn(
            host="127.0.0.1,127.0.0.1",
            port=f"{own_server.port},{standby.port}",
            target_session_attrs="read-write",
        )
        with watched(here=both) as here:
            here.await_value("pglock_up", 1.0)
            own_server.stop()
            here.await_value("pglock_up", 0.0)
            with psycopg.connect(standby.dsn(), autocommit=True) as connection:
                connection.execute("SELECT pg_promote()")
            here.await_value("pglock_up", 1.0)
            assert here.value("pglock_server_in_recovery") == 0


def test_a_broken_connection_is_made_anew_and_counts_on(
    connect: Connect, proxy: Proxy, janitor: Connection
) -> None:
    with watched(NIGHTLY, here=proxy.dsn) as here:
        holder(connect)
        here.await_value(HOLDS, 1.0, **NAMED)
        proxy.cut()
        wait_until(lambda: len(here.told) == 2, "it was away, and is back", timeout=60)
        here.await_value("pglock_job_held", 1.0, **NAMED)
        assert here.value(HOLDS, **NAMED) == 1, "it is still the same hold"
        wait_until(lambda: sessions(janitor) == 1, "there is one session")


def test_it_was_away_since_the_last_poll_that_worked(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not since one that failed: it may have waited long."""
    monkeypatch.setattr(connection, "_PATIENCE", 1.0)
    with watched(here=proxy.dsn) as here:
        here.await_value("pglock_up", 1.0)
        proxy.frozen = True
        here.await_value("pglock_up", 0.0)
        proxy.frozen = False
        here.await_value("pglock_up", 1.0)
        wait_until(lambda: len(here.told) == 2, "it says so")
    assert "did not answer within 1 s" in here.told[0]
    assert parse_duration(here.told[1].rpartition(" after ")[2].replace(" ", "")) > 1.0


def test_targets_that_hang_and_are_dead_hold_nobody_up(proxy: Proxy, dsn: str, janitor: Connection) -> None:
    nobody = "host=127.0.0.1 port=1 user=nobody"
    with watched(frozen=proxy.dsn, dead=nobody, here=dsn) as here:
        wait_until(lambda: here.report("frozen").server and here.report("here").server, "both are read")
        proxy.frozen = True
        await_polls(here, 3)  # one may still be on its way through the proxy
        frozen = here.report("frozen")
        await_polls(here, 20)
        assert here.report("frozen").read_at == frozen.read_at
        assert here.value("pglock_up", target="dead") == 0
        assert_nothing_stale(here, "dead")
        assert sessions(janitor) == 2
        proxy.frozen = False


def test_a_server_without_a_connection_left(start_server: StartServer) -> None:
    server = start_server({"max_connections": 8, "superuser_reserved_connections": 3})
    with ExitStack() as connections, psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute("CREATE ROLE app LOGIN")
        for _ in range(4):  # beside the one above and the three that are reserved
            connections.enter_context(psycopg.connect(server.dsn(user="app")))
        with watched(here=server.dsn(user="app")) as here:
            wait_until(
                lambda: here.value("pglock_poll_failures_total", reason="too_many_connections"),
                "it is counted",
            )
            assert here.value("pglock_up") == 0
            connections.close()
            here.await_value("pglock_up", 1.0)
            assert here.value("pglock_last_poll_timestamp_seconds")


def test_a_full_lock_table_is_watched_on_by_the_same_session(start_server: StartServer) -> None:
    server = start_server({"max_locks_per_transaction": 10, "max_connections": 8})
    with (
        watched(here=server.dsn()) as here,
        psycopg.connect(server.dsn(), autocommit=True) as hog,
    ):
        here.await_value("pglock_up", 1.0)
        with pytest.raises(psycopg.errors.OutOfMemory):
            hog.execute("SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 1000000) AS n")
        wait_until(lambda: (here.value("pglock_lock_table_rows") or 0) > 100, "it is seen to be full")
        assert here.value("pglock_up") == 1


def test_a_wrong_password(start_server: StartServer) -> None:
    server = start_server(password="right")
    with watched(here=server.dsn(password="of nobody")) as here:
        wait_until(lambda: here.value("pglock_poll_failures_total", reason="auth"), "it is counted")
        assert here.value("pglock_up") == 0
        assert here.value("pglock_last_poll_timestamp_seconds") is None
        assert_nothing_stale(here)
    assert len(here.told) == 1
    assert "of nobody" not in here.told[0]


def test_it_counts_on_after_a_restart_of_the_exporter(connect: Connect, dsn: str, tmp_path: Path) -> None:
    state_file = tmp_path / "state.json"
    connection = holder(connect)
    with watched(NIGHTLY, state_file=state_file, here=dsn, dead="host=127.0.0.1 port=1") as here:
        here.await_value(HOLDS, 1.0, **NAMED)
        wait_until(
            lambda: here.value("pglock_poll_failures_total", target="dead", reason="connect"), "a failure"
        )
    last = here.value("pglock_poll_failures_total", target="dead", reason="connect")
    assert last
    with watched(NIGHTLY, state_file=state_file, here=dsn, dead="host=127.0.0.1 port=1") as here:
        here.await_value("pglock_job_held", 1.0, **NAMED)
        assert here.value(HOLDS, **NAMED) == 1, "it is still the same hold"
        connection.execute("SELECT pg_advisory_unlock(7)")
        here.await_value(HOLDS_ENDED, 1.0, **NAMED)
        lasted = here.value("pglock_job_observed_hold_seconds_sum", **NAMED)
        assert lasted
        wait_until(
            lambda: (here.value("pglock_poll_failures_total", target="dead", reason="connect") or 0) > last,
            "it counts on",
        )


def test_a_missed_run_is_known_after_a_restart_of_the_exporter(
    connect: Connect, dsn: str, tmp_path: Path
) -> None:
    state_file, job = tmp_path / "state.json", replace(NIGHTLY, every=3.0, min_held=60.0)
    with watched(job, state_file=state_file, here=dsn) as here:
        ran = holder(connect)
        here.await_value("pglock_job_held", 1.0, **NAMED)
        ran.execute("SELECT pg_advisory_unlock_all()")
        here.await_value("pglock_job_held", 0.0, database="", name="nightly")
        last = here.value("pglock_job_last_held_timestamp_seconds", database="", name="nightly")
    with watched(job, state_file=state_file, here=dsn) as here:
        here.await_value("pglock_findings", 1.0, rule="missed", severity="critical")
        assert here.value("pglock_findings", rule="never-seen", severity="warning") == 0
        assert here.value("pglock_job_last_held_timestamp_seconds", database="", name="nightly") == last


def test_one_session_for_each_target_and_none_afterwards(dsn: str, janitor: Connection) -> None:
    with watched(one=dsn, two=dsn) as here:
        wait_until(lambda: here.report("one").server and here.report("two").server, "both are read")
        assert sessions(janitor) == 2
    wait_until(lambda: sessions(janitor) == 0, "both have ended")


def test_what_nobody_foresaw_is_a_failed_poll(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from pglock_inspect import watch  # noqa: PLC0415

    def judge(*_: object) -> None:
        raise KeyError("secret")

    with watched(here=dsn) as here:
        here.await_value("pglock_up", 1.0)
        with monkeypatch.context() as broken:
            broken.setattr(watch, "judge", judge)
            here.await_value("pglock_up", 0.0)
        assert here.value("pglock_poll_failures_total", reason="other")
        here.await_value("pglock_up", 1.0)
    assert here.told[0].startswith("here: something unforeseen went wrong (KeyError): ")
    assert "secret" not in here.told[0]

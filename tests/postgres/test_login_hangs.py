"""A server on which nobody gets through a login, and what only looks like one."""

from __future__ import annotations

import gc
import os
import signal
import socket
from typing import TYPE_CHECKING

import psycopg
import pytest

from pglock_inspect.config import Settings
from pglock_inspect.errors import ServerFailure
from pglock_inspect.postgres import probe
from pglock_inspect.postgres.connection import connect
from pglock_inspect.watch import Watcher
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.demo.server import TemporaryServer
    from tests.support.servers import Connection, StartServer

SAID = "the server answers, but the login hangs; see in a session that is still open whether somebody keeps "


@pytest.fixture
def own_server(start_server: StartServer) -> TemporaryServer:
    return start_server()


@pytest.fixture
def vandal(own_server: TemporaryServer) -> Iterator[Connection]:
    with psycopg.connect(own_server.dsn()) as connection:
        yield connection
        connection.rollback()


def failure(dsn: str) -> ServerFailure:
    with pytest.raises(ServerFailure) as raised:
        connect(dsn)
    return raised.value


@pytest.mark.parametrize("catalog", ["pg_authid", "pg_database", "pg_class"])
def test_a_locked_catalog_is_not_taken_for_the_network(
    own_server: TemporaryServer, vandal: Connection, catalog: str
) -> None:
    vandal.execute(f"LOCK TABLE {catalog}".encode())
    for host in ("127.0.0.1", "localhost", str(own_server.directory)):
        error = failure(own_server.dsn(host=host, connect_timeout=2))
        assert SAID in str(error)
        assert error.reason == "login_hangs"


def test_the_statement_that_is_told_shows_who_it_is(own_server: TemporaryServer, vandal: Connection) -> None:
    """It is run where a session is still open, and in the same way by whoever reads it."""
    with psycopg.connect(own_server.dsn(), autocommit=True) as open_session:
        vandal.execute("LOCK TABLE pg_authid")
        told = str(failure(own_server.dsn(connect_timeout=2)))
        statement = told[told.index("SELECT ") :]
        assert open_session.execute(statement.encode()).fetchall() == [(vandal.info.backend_pid,)]


def test_a_watcher_that_was_there_before_goes_on(own_server: TemporaryServer, vandal: Connection) -> None:
    with Watcher(own_server.dsn(connect_timeout=2), Settings()) as warm:
        assert warm.poll().error is None
        vandal.execute("SELECT pg_advisory_lock(7)")
        vandal.execute("LOCK TABLE pg_authid")
        assert [lock.pid for lock in warm.poll().locks] == [vandal.info.backend_pid]
        with Watcher(own_server.dsn(connect_timeout=2), Settings()) as cold:
            assert cold.poll().failure == "login_hangs"
            vandal.rollback()
            wait_until(lambda: cold.poll().error is None, "logins come through again")


def test_a_network_that_drops_packets_is_none(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_PATIENCE", 0.3)
    with Proxy(dsn) as proxy:
        proxy.frozen = True
        assert failure(f"{proxy.dsn} connect_timeout=2").reason == "timeout"


def test_a_server_that_is_stopped_is_none(
    own_server: TemporaryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_PATIENCE", 0.3)
    os.kill(own_server.pid, signal.SIGSTOP)
    try:
        for host in ("127.0.0.1", str(own_server.directory)):
            assert failure(own_server.dsn(host=host, connect_timeout=2)).reason == "timeout"
    finally:
        os.kill(own_server.pid, signal.SIGCONT)


def test_a_login_that_was_given_up_is_hung_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it takes one of the server's places, and keeps the server from stopping."""
    monkeypatch.setattr(probe, "_PATIENCE", 0.3)
    gc.disable()
    try:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            error = failure(f"host=127.0.0.1 port={silent.getsockname()[1]} connect_timeout=2")
            assert error.reason == "timeout"
            line, _ = silent.accept()
            with line:
                line.settimeout(5)
                while line.recv(100):
                    pass
    finally:
        gc.enable()


def test_nothing_answers_where_nothing_listens(own_server: TemporaryServer) -> None:
    assert probe.answers(own_server.dsn())
    assert probe.answers(own_server.dsn(host="127.0.0.2,127.0.0.1"))
    own_server.stop()
    assert not probe.answers(own_server.dsn())
    assert not probe.answers(own_server.dsn(host="127.0.0.2,127.0.0.1"))
    assert not probe.answers(own_server.dsn(host=str(own_server.directory)))
    assert not probe.answers("host=nowhere.invalid")

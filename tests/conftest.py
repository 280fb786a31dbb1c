from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pglock_inspect.demo.server import TemporaryServer
from tests.support.servers import (
    SETTINGS,
    Connect,
    Connection,
    GivenServer,
    Server,
    StartServer,
    bindir,
    end_sessions,
    shared_server,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server that tests share; ask for `dsn` or `connect`, which clean up after the test."""
    with shared_server() as server:
        yield server


@pytest.fixture(scope="session")
def janitor(server: Server) -> Iterator[Connection]:
    with psycopg.connect(server.dsn(application_name="janitor"), autocommit=True) as connection:
        yield connection


@pytest.fixture
def dsn(server: Server, janitor: Connection) -> Iterator[str]:
    """The shared server's connection string; sessions and prepared transactions there end with the test."""
    yield server.dsn()
    if not isinstance(server, GivenServer):
        end_sessions(server, janitor)


@pytest.fixture
def connect(dsn: str, janitor: Connection) -> Iterator[Connect]:
    """Opens sessions on the shared server."""
    opened: list[Connection] = []

    def open_session(
        application_name: str = "test", *, autocommit: bool = True, **parameters: str | int
    ) -> Connection:
        conninfo = make_conninfo(dsn, application_name=application_name, **parameters)
        opened.append(psycopg.connect(conninfo, autocommit=autocommit))
        return opened[-1]

    yield open_session
    pids = [connection.info.backend_pid for connection in opened if not connection.closed]
    janitor.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", [pids])
    for connection in opened:
        connection.close()


@pytest.fixture
def database(server: Server, janitor: Connection) -> Iterator[str]:
    """The name of a new, empty database on the shared server, dropped after the test."""
    name = "pglock_test"
    janitor.execute(f"CREATE DATABASE {name}")
    yield name
    end_sessions(server, janitor, name)
    janitor.execute(f"DROP DATABASE {name}")


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Starts a server of the test's own, with its own settings."""
    with ExitStack() as servers:

        def start(settings: Mapping[str, str | int] | None = None, **options: Any) -> TemporaryServer:  # noqa: ANN401
            own = TemporaryServer(bindir=bindir(), settings={**SETTINGS, **(settings or {})}, **options)
            return servers.enter_context(own)

        yield start

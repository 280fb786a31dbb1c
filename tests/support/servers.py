"""The PostgreSQL that the tests run on.

By default the embedded one; `PGLOCK_TEST_PG=13` picks a version below `.servers/` (`make servers`),
`PGLOCK_TEST_DSN` a server of yours, `PGLOCK_TEST_SERVER=docker` a container (`tests/docker/engine`).
"""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pglock_inspect.demo.programs import find_bindir
from pglock_inspect.demo.server import TemporaryServer
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from testcontainers.community.postgres import PostgresContainer

Connection = psycopg.Connection[tuple[Any, ...]]

SETTINGS: Mapping[str, str | int] = {"max_prepared_transactions": 20}
YOURS = os.environ.get("PGLOCK_TEST_DSN")
IN_DOCKER = os.environ.get("PGLOCK_TEST_SERVER") == "docker"
_IMAGE_VERSION = 15
_ROOT = Path(__file__).parents[2]


class Server(Protocol):
    """A running server; `dsn(dbname="app", user="app")` is a connection string for it."""

    def dsn(self, **parameters: str | int) -> str: ...


class Connect(Protocol):
    """Opens a session that is closed, and ended on the server, after the test; keywords are libpq's too."""

    def __call__(
        self, application_name: str = "test", *, autocommit: bool = True, **parameters: str | int
    ) -> Connection: ...


class StartServer(Protocol):
    """Starts a server of the test's own, stopped after it; `options` are TemporaryServer's."""

    def __call__(
        self,
        settings: Mapping[str, str | int] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> TemporaryServer: ...


class GivenServer:
    """A server that was not started by the launcher; `dsn` may be a URL, what it gives is `name=value`."""

    def __init__(self, dsn: str) -> None:
        self._dsn = make_conninfo("", **conninfo_to_dict(dsn))

    def dsn(self, **parameters: str | int) -> str:
        return make_conninfo(self._dsn, **parameters)


def bindir() -> Path:
    """The programs of the version under test, for servers that the tests start themselves."""
    if version := os.environ.get("PGLOCK_TEST_PG"):
        return _ROOT / ".servers" / "node_modules" / f"pg{version}" / "native" / "bin"
    return find_bindir()


def postgres_container() -> PostgresContainer:
    """A context manager: PostgreSQL in a container, where everybody is trusted."""
    from testcontainers.community.postgres import PostgresContainer  # noqa: PLC0415 -- slow

    settings = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    image = PostgresContainer(f"postgres:{_IMAGE_VERSION}", username="postgres", dbname="postgres")
    return image.with_env("POSTGRES_HOST_AUTH_METHOD", "trust").with_command(f"postgres {settings}")


@contextmanager
def shared_server() -> Iterator[Server]:
    """The one server that tests share."""
    if YOURS:
        yield GivenServer(YOURS)
    elif IN_DOCKER:
        with postgres_container() as container:
            yield GivenServer(container.get_connection_url(driver=None))
    else:
        with TemporaryServer(bindir=bindir(), settings=SETTINGS) as server:
            yield server


@cache
def major_version() -> int:
    """Of the version under test."""
    if IN_DOCKER:
        return _IMAGE_VERSION
    if YOURS:
        with psycopg.connect(YOURS) as connection:
            return connection.info.server_version // 10_000
    words = subprocess.check_output([bindir() / "postgres", "--version"], text=True).split()
    return int(words[2].partition(".")[0])


def end_sessions(server: Server, janitor: Connection, database: str | None = None) -> None:
    """End all sessions but the janitor's and roll back what is prepared, everywhere or in one database."""
    among = {"database": database}
    others = """FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
                AND datname = coalesce(%(database)s, datname)"""
    janitor.execute(f"SELECT pg_terminate_backend(pid) {others}", among)
    roll_back(server, prepared(janitor, database))
    wait_until(
        lambda: not janitor.execute(f"SELECT pid {others}", among).fetchall(), "the test's sessions are gone"
    )


def prepared(janitor: Connection, database: str | None = None) -> set[tuple[str, str]]:
    """The gid and the database of each prepared transaction, everywhere or in one database."""
    query = "SELECT gid, database FROM pg_prepared_xacts WHERE database = coalesce(%s, database)"
    return set(janitor.execute(query, [database]).fetchall())


def roll_back(server: Server, transactions: Iterable[tuple[str, str]]) -> None:
    """Roll back prepared transactions, each in its database."""
    for gid, database in transactions:
        with psycopg.connect(server.dsn(dbname=database), autocommit=True) as connection:
            connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(gid))

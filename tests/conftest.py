from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pglock_inspect.demo.server import TemporaryServer
from tests.support.requirements import ALL_REQUIRED, require
from tests.support.servers import (
    SETTINGS,
    YOURS,
    Connect,
    Connection,
    Server,
    StartServer,
    bindir,
    end_sessions,
    major_version,
    prepared,
    roll_back,
    shared_server,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def pytest_configure() -> None:
    """Ignore no signal on behalf of the programs under test, as `nohup` and a shell's `&` do."""
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, signal.default_int_handler if signum == signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out the tests of what the PostgreSQL under test does not have yet: there is nothing to skip."""
    too_new = [
        item
        for item in items
        if any(major_version() < mark.args[0] for mark in item.iter_markers("postgres"))
    ]
    if too_new:
        config.hook.pytest_deselected(items=too_new)
        items[:] = [item for item in items if item not in too_new]


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("requires"):
        for name in mark.args:
            require(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _without_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_skip((yield))


def _without_skip(report: Report) -> Report:
    if ALL_REQUIRED and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason} (with PGLOCK_TEST_REQUIRE=all no test may be skipped)"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what tests counted (`record_property("counted", …)`), for the output of CI, too."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, text in getattr(report, "user_properties", []):
                if name == "counted" and report.when == "call":
                    terminalreporter.section(report.nodeid)
                    terminalreporter.write_line(text)


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
    if YOURS:  # there may be other people's
        theirs = prepared(janitor)
        yield server.dsn()
        roll_back(server, prepared(janitor) - theirs)
    else:
        yield server.dsn()
        end_sessions(server, janitor)


@pytest.fixture
def connect(dsn: str, janitor: Connection) -> Iterator[Connect]:
    """Opens sessions on the shared server, also as a role that the test made."""
    opened: list[Connection] = []

    def open_session(
        application_name: str = "test", *, autocommit: bool = True, **parameters: str | int
    ) -> Connection:
        role = str(parameters.get("user", janitor.info.user))
        if role != janitor.info.user and "password" not in parameters:
            # A role that the test made, on a server that may ask everybody for a password.
            parameters["password"] = "of a test"
            janitor.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), "of a test"))
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
            options = {"bindir": bindir(), "settings": {**SETTINGS, **(settings or {})}, **options}
            own = TemporaryServer(**options)
            return servers.enter_context(own)

        yield start

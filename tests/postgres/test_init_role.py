from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from typer.testing import CliRunner

from pglock_inspect.cli.init import app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect, Connection

EXISTS = "SELECT FROM pg_roles WHERE rolname = 'pglock_inspect'"


@pytest.fixture
def role(janitor: Connection) -> Iterator[str]:
    """The role that the printed SQL makes."""
    if janitor.execute(EXISTS).fetchone():
        pytest.fail("the server has a role pglock_inspect already")
    janitor.execute(CliRunner().invoke(app, ["--print", "grants"], standalone_mode=False).stdout)
    yield "pglock_inspect"
    janitor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pglock_inspect'")
    janitor.execute("DROP ROLE pglock_inspect")


def test_the_role_sees_what_others_do_and_takes_two_connections_at_most(role: str, connect: Connect) -> None:
    worker = connect("worker")
    watcher = connect("watcher", user=role)
    query = "SELECT query FROM pg_stat_activity WHERE pid = %s"
    worker.execute("SELECT pg_advisory_lock(42)")
    assert watcher.execute(query, [worker.info.backend_pid]).fetchone() == ("SELECT pg_advisory_lock(42)",)
    connect("a second watcher", user=role)
    with pytest.raises(psycopg.OperationalError, match='too many connections for role "pglock_inspect"'):
        connect("a third watcher", user=role)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        watcher.execute("SELECT pg_terminate_backend(%s)", [worker.info.backend_pid])

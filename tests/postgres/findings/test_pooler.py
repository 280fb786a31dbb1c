"""`pooler`: a session-level lock on a session that many use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from pglock_inspect.model import Job
from tests.support.pooler import pgbouncer
from tests.support.watching import found, soon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect, Connection
    from tests.support.watching import Watch

pytestmark = pytest.mark.requires("pgbouncer")

TRY = "SELECT pg_backend_pid(), pg_try_advisory_lock(hashtext('nightly'))"


@pytest.fixture
def clients(dsn: str) -> Iterator[tuple[Connection, Connection]]:
    """Two replicas of an application behind a pooler with one session."""
    with (
        pgbouncer(dsn, "transaction") as through,
        psycopg.connect(through, autocommit=True, application_name="replica-1") as one,
        psycopg.connect(through, autocommit=True, application_name="replica-2") as two,
    ):
        yield one, two


def test_a_lock_that_two_clients_of_a_pooler_have_is_reported(
    clients: tuple[Connection, Connection], watch: Watch
) -> None:
    one, two = clients
    watcher = watch(Job("nightly"))
    pid, got = one.execute(TRY).fetchone() or ()
    assert got
    assert not found(watcher.poll(), "pooler")
    assert two.execute(TRY).fetchone() == (pid, True)  # both run the job
    finding = soon(watcher, "pooler", pid=pid)
    assert finding.severity == "warning"
    assert (finding.job, finding.database) == ("nightly", "postgres")
    assert finding.summary.startswith(f"nightly: pid {pid} (postgres, replica-2) went by 2 names")
    assert finding.evidence.startswith("application_name while held: 'replica-1', 'replica-2'; held ")
    assert "pglock-inspect doctor" in finding.suggestion
    assert "pg_advisory_xact_lock()" in finding.suggestion


def test_a_lock_for_a_transaction_is_right_behind_a_pooler(
    clients: tuple[Connection, Connection], watch: Watch
) -> None:
    watcher = watch(Job("nightly"))
    pids = set()
    for client in clients:
        with client.transaction():
            client.execute("SELECT pg_advisory_xact_lock(hashtext('nightly'))")
            report = watcher.poll()
            pids |= {lock.pid for lock in report.locks}
            assert not found(report, "pooler")
    assert len(pids) == 1  # the same session, under two names


def test_one_client_that_keeps_its_name_is_no_sign_of_a_pooler(connect: Connect, watch: Watch) -> None:
    worker = connect("worker: idle")
    worker.execute("SET application_name = 'worker: nightly'")
    watcher = watch(Job("nightly"))
    worker.execute(TRY)
    for _ in range(3):
        report = watcher.poll()
    worker.execute("SELECT pg_advisory_unlock_all()")
    worker.execute("SET application_name = 'worker: idle'")
    assert not found(report, "pooler")
    assert not found(watcher.poll(), "pooler")

"""`vacuum-held-back`, `many-locks-one-session`, `lock-table-filling` and `no-pg-monitor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pglock_inspect.model import Job
from tests.support.waiting import wait_until
from tests.support.watching import await_lock, begin, found, lock_of, locks_of, soon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect, Connection, Server
    from tests.support.watching import Watch

TAKE = "SELECT pg_advisory_lock(hashtext('nightly'))"
VACUUM = "vacuum-held-back"
AT_ONCE = {VACUUM: 1e-6}


def test_a_waiter_holds_back_vacuum_and_its_idle_holder_does_not(connect: Connect, watch: Watch) -> None:
    holder, waiter = connect("one"), connect("two")
    holder.execute(TAKE)
    begin(waiter, TAKE)
    watcher = watch(Job("nightly"), thresholds={VACUUM: 0.05})
    finding = soon(watcher, VACUUM, pid=waiter.info.backend_pid)
    pid = waiter.info.backend_pid
    assert finding.severity == "warning"
    assert (finding.job, finding.database) == ("nightly", "postgres")
    assert finding.key == lock_of(watcher.poll(), holder).key
    assert finding.summary.startswith(
        f"nightly: pid {pid} (postgres, two), which waits for it, has kept VACUUM from removing dead rows "
        "for at least "
    )
    assert finding.evidence.startswith("its snapshot or transaction is ")
    assert "transaction open for " in finding.evidence
    assert finding.suggestion.endswith(f"; to end this wait: pglock-inspect kill {pid} --cancel")
    assert not found(watcher.poll(), VACUUM, pid=holder.info.backend_pid)


def test_a_holder_that_wrote_in_its_open_transaction_holds_back_vacuum(
    invoices: str, connect: Connect, watch: Watch
) -> None:
    worker = connect(autocommit=False)
    worker.execute("SELECT pg_advisory_xact_lock(hashtext('nightly'))")
    worker.execute(f"DELETE FROM {invoices}")
    pid = worker.info.backend_pid
    finding = soon(watch(Job("nightly"), thresholds={VACUUM: 0.05}), VACUUM, pid=pid)
    assert finding.job == "nightly"
    assert ", which holds it, has kept VACUUM" in finding.summary
    assert finding.suggestion.endswith(f": pglock-inspect kill {pid} --terminate")


def test_a_holder_that_keeps_its_snapshot_holds_back_vacuum(connect: Connect, watch: Watch) -> None:
    idle, busy = connect(), connect()
    idle.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pg_advisory_xact_lock(hashtext('nightly'))")
    busy.execute("SELECT pg_advisory_lock(hashtext('weekly'))")
    begin(busy, "SELECT pg_sleep(60)")
    watcher = watch(Job("nightly"), Job("weekly"), thresholds={VACUUM: 0.05})
    assert soon(watcher, VACUUM, pid=idle.info.backend_pid).job == "nightly"
    assert soon(watcher, VACUUM, pid=busy.info.backend_pid).job == "weekly"


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT pg_advisory_lock(hashtext('nightly'))",  # idle, in no transaction
        "BEGIN; SELECT pg_advisory_xact_lock(hashtext('nightly'))",  # READ COMMITTED, wrote nothing
    ],
)
def test_an_idle_holder_that_wrote_nothing_holds_back_nothing(
    connect: Connect, watch: Watch, statement: str
) -> None:
    worker = connect()
    worker.execute(statement)
    report = watch(Job("nightly"), thresholds=AT_ONCE).poll()
    assert lock_of(report, worker).session is not None
    assert not found(report, VACUUM)


def test_a_statement_of_several_is_not_said_to_have_kept_one_snapshot(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute(TAKE)
    begin(worker, "SELECT 1; SELECT pg_sleep(60)")
    watcher = watch(Job("nightly"), thresholds=AT_ONCE)

    def has_a_snapshot() -> bool:
        session = lock_of(watcher.poll(), worker).session
        return session is not None and session.xmin_age is not None

    wait_until(has_a_snapshot, "it runs")
    assert not found(watcher.poll(), VACUUM)


def test_a_short_wait_is_not_said_to_hold_back_vacuum(connect: Connect, watch: Watch) -> None:
    holder, waiter = connect(), connect()
    holder.execute(TAKE)
    begin(waiter, TAKE)
    watcher = watch(Job("nightly"))
    await_lock(watcher, waiter, granted=False)
    assert not found(watcher.poll(), VACUUM)


def test_a_session_with_a_hundred_locks_is_reported(connect: Connect, watch: Watch) -> None:
    worker, tenants = connect("loop"), connect()
    worker.execute(
        "SELECT pg_advisory_lock(n), pg_advisory_lock_shared(1, n) FROM generate_series(1, 50) AS n"
    )
    tenants.execute("SELECT pg_advisory_lock(7, n) FROM generate_series(1, 1234) AS n")
    watcher = watch(Job("tenants", first=7))
    pid = worker.info.backend_pid
    finding = soon(watcher, "many-locks-one-session", pid=pid)
    assert finding.severity == "warning"
    assert (finding.job, finding.key, finding.database) == (None, None, "postgres")
    assert finding.summary == f"pid {pid} (postgres, loop) holds 100 advisory locks"
    assert finding.evidence.startswith("100 of 1,3")
    assert finding.suggestion.endswith(f": pglock-inspect why {pid}")
    finding = soon(watcher, "many-locks-one-session", job="tenants")
    assert finding.summary.endswith(" holds 1,234 advisory locks of tenants")


def test_a_session_with_fewer_locks_is_not_reported(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 99) AS n")
    report = watch().poll()
    assert len(locks_of(report, worker)) == 99
    assert not found(report, "many-locks-one-session")


def test_a_full_lock_table_is_foretold(connect: Connect, watch: Watch, janitor: Connection) -> None:
    worker, watcher = connect(), watch()
    settings = "max_locks_per_transaction", "max_connections", "max_prepared_transactions"
    slots, *sessions = (int(show(janitor, name)) for name in settings)
    guaranteed = slots * sum(sessions)
    most = int(guaranteed * 0.8)
    worker.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, %s) AS n", [most])
    finding = soon(watcher, "lock-table-filling")
    assert finding.severity == "info"
    assert finding.summary.endswith(
        f" locks, {guaranteed:,} are guaranteed to fit; when it is full, statements and logins fail"
    )
    assert finding.evidence.startswith("80% of max_locks_per_transaction * (")
    assert finding.evidence.endswith(" are advisory")
    assert f"; {most:,} of " in finding.evidence
    suggested = finding.suggestion[finding.suggestion.index("SELECT") :]
    assert janitor.execute(suggested).fetchone() == (worker.info.backend_pid, most)
    worker.execute("SELECT pg_advisory_lock(0, n) FROM generate_series(1, %s) AS n", [guaranteed - most])
    assert "100% of " in soon(watcher, "lock-table-filling", severity="warning").evidence


def show(connection: Connection, setting: str) -> str:
    (value,) = connection.execute(f"SHOW {setting}").fetchone() or ()
    return str(value)


def test_a_lock_table_with_room_is_nothing_to_tell(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 6000) AS n")
    report = watch().poll()
    assert report.lock_table_rows >= 6000
    assert not found(report, "lock-table-filling")


@pytest.fixture
def watching_role(janitor: Connection) -> Iterator[str]:
    """A role whose name needs quotes; ask for it before `watch`."""
    name = 'pglock "test"'
    quoted = '"pglock ""test"""'
    janitor.execute(f"CREATE ROLE {quoted} LOGIN PASSWORD 'of a test'")
    yield name
    janitor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", [name])
    janitor.execute(f"DROP ROLE {quoted}")


def test_a_role_that_may_not_see_others_says_once_what_is_missing(
    watching_role: str, server: Server, connect: Connect, watch: Watch, janitor: Connection
) -> None:
    worker, own = connect("worker"), connect(user=watching_role)
    worker.execute(TAKE)
    own.execute("SELECT pg_advisory_lock(hashtext('weekly'))")
    dsn = server.dsn(user=watching_role, password="of a test")
    report = watch(Job("nightly"), dsn=dsn).poll()
    (finding,) = found(report, "no-pg-monitor")
    assert finding.severity == "info"
    assert finding.evidence == "1 of 2 holders hidden"
    assert finding.suggestion == 'GRANT pg_monitor TO "pglock ""test"""'
    hidden = lock_of(report, worker)
    assert hidden.name is not None
    assert hidden.session is not None
    assert (hidden.name.text, hidden.session.application_name, hidden.session.state) == (
        "nightly",
        "worker",
        None,
    )
    assert hidden.held is not None
    assert (hidden.held.seconds, hidden.held.at_least, hidden.held.evidence) == (None, None, "none")
    janitor.execute(finding.suggestion)
    report = watch(Job("nightly"), dsn=dsn).poll()
    assert not found(report, "no-pg-monitor")
    assert lock_of(report, worker).held != hidden.held


def test_a_superuser_misses_nothing(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute(TAKE)
    report = watch().poll()
    assert lock_of(report, worker).held is not None
    assert not found(report, "no-pg-monitor")

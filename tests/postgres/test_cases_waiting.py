"""Trouble with waiting: what a watcher says of queues, circles and poolers."""

from __future__ import annotations

from contextlib import ExitStack, closing
from select import select
from typing import TYPE_CHECKING

import psycopg
import pytest

from pglock_inspect.model import Job, Limits
from tests.support.pooler import pgbouncer
from tests.support.waiting import wait_until
from tests.support.watching import await_lock, begin, finish, found, lock_of, locks_of, soon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Connect, Connection, Server
    from tests.support.watching import Watch

    Pooler = Callable[[int], Callable[[str], Connection]]

SOON = Limits(max_wait=0.05)
TAKE = "SELECT pg_advisory_lock(hashtext('nightly'))"
TRY = "SELECT pg_try_advisory_lock(hashtext('nightly'))"


@pytest.mark.parametrize(("setting", "error"), [("statement_timeout", "57014"), ("lock_timeout", "55P03")])
def test_who_gives_up_waiting_is_gone_from_the_queue(
    connect: Connect, watch: Watch, setting: str, error: str
) -> None:
    holder, waiter = connect(), connect()
    watcher = watch(Job("nightly"))
    holder.execute(TAKE)
    waiter.execute(f"SET {setting} = '700ms'")
    begin(waiter, f"BEGIN; {TAKE}")
    lock = await_lock(watcher, waiter, granted=False)
    assert lock.blocked_by == (holder.info.backend_pid,)
    assert finish(waiter) == error
    report = watcher.poll()
    assert not locks_of(report, waiter, granted=False)
    assert lock_of(report, holder).waiters == 0
    assert lock_of(report, holder).findings == ()


def test_pollers_do_not_wait_and_are_not_said_to(connect: Connect, watch: Watch) -> None:
    holder, *pollers = (connect() for _ in range(4))
    holder.execute(TAKE)
    for poller in pollers:
        assert poller.execute(TRY).fetchone() == (False,)
    report = watch(Job("nightly", limits=Limits(max_wait=1e-6))).poll()
    assert lock_of(report, holder).waiters == 0
    assert report.totals["postgres"].waiting == 0
    assert not found(report, "waiting-long")


def test_a_queue_is_told_from_its_holder_and_a_blocked_holder_from_its_lock(
    connect: Connect, watch: Watch
) -> None:
    first, second, *queue = (connect() for _ in range(5))
    watcher = watch(Job("nightly"))
    first.execute(TAKE)
    second.execute("SELECT pg_advisory_lock(4242)")
    for waiter in queue:
        begin(waiter, TAKE)
        await_lock(watcher, waiter, granted=False)
    begin(first, "SELECT pg_advisory_lock(4242)")
    await_lock(watcher, first, granted=False)
    report = watcher.poll()
    pids = [waiter.info.backend_pid for waiter in queue]
    for place, waiter in enumerate(queue):
        waits = lock_of(report, waiter, granted=False)
        assert waits.blocked_by == (first.info.backend_pid,)
        assert sorted(waits.queued_behind or ()) == sorted(pids[:place])
    granted = lock_of(report, first)
    assert (granted.blocked_by, granted.waiters) == ((), 3)
    assert report.chain[first.info.backend_pid].blocked_by == (second.info.backend_pid,)
    assert report.chain[second.info.backend_pid].waits_for is None


def test_a_circle_through_an_index_build_of_the_holder_is_left_to_the_server(
    connect: Connect, watch: Watch, janitor: Connection
) -> None:
    builder, waiter = connect("one"), connect("two")
    janitor.execute("CREATE TABLE pglock_test_bloat AS SELECT 1 AS id")
    try:
        for session in (builder, waiter):
            session.execute("SET deadlock_timeout = '60s'")  # long enough to look at it
        watcher = watch(Job("nightly"), thresholds={"holder-blocked": 0.01})
        builder.execute(TAKE)
        begin(waiter, TAKE)
        await_lock(watcher, waiter, granted=False)
        begin(builder, "CREATE INDEX CONCURRENTLY ON pglock_test_bloat (id)")
        finding = soon(watcher, "holder-blocked", pid=builder.info.backend_pid)
        assert "has itself waited for a virtualxid lock (ShareLock) for " in finding.summary
        assert "in the end" not in finding.summary  # a circle has none
        assert f"blocked by pid {waiter.info.backend_pid}; " in finding.evidence
        assert not found(watcher.poll(), "hidden-deadlock")
        waiter.cancel()
        assert (finish(waiter), finish(builder)) == ("57014", None)
    finally:
        janitor.execute("DROP TABLE pglock_test_bloat")


@pytest.fixture
def limited_role(janitor: Connection) -> Iterator[str]:
    """A role with four connections; ask for it before `connect`."""
    janitor.execute("CREATE ROLE pglock_web LOGIN PASSWORD 'of a test' CONNECTION LIMIT 4")
    yield "pglock_web"
    janitor.execute("DROP ROLE pglock_web")


def test_waiters_take_all_connections_but_the_watchers(
    limited_role: str, server: Server, connect: Connect, watch: Watch
) -> None:
    holder, *waiters = (connect("web", user=limited_role) for _ in range(4))
    watcher = watch(Job("nightly", limits=SOON), thresholds={"waiting-long": 0.03})
    holder.execute(TAKE)
    for waiter in waiters:
        begin(waiter, TAKE)
    cold = watch(dsn=server.dsn(user=limited_role, password="of a test")).poll()
    assert cold.failure == "too_many_connections"
    assert cold.error is not None
    assert 'too many connections for role "pglock_web"' in cold.error
    for waiter in waiters:
        finding = soon(watcher, "waiting-long", pid=waiter.info.backend_pid, severity="critical")
        assert "; 3 waiting, " in finding.evidence
    assert lock_of(watcher.poll(), holder).waiters == 3


@pytest.fixture
def pooler(dsn: str) -> Iterator[Pooler]:
    """Starts a pooler for transactions, with so many sessions; returns what opens clients of it."""
    with ExitStack() as opened:

        def start(pool_size: int) -> Callable[[str], Connection]:
            through = opened.enter_context(pgbouncer(dsn, "transaction", pool_size=pool_size))

            def connect(name: str) -> Connection:
                client = psycopg.connect(through, autocommit=True, application_name=name)
                return opened.enter_context(closing(client))

            return connect

        yield start


@pytest.mark.requires("pgbouncer")
def test_a_pooler_keeps_the_lock_of_clients_that_are_gone(
    pooler: Pooler, watch: Watch, janitor: Connection
) -> None:
    client = pooler(2)
    pod, busy = client("pod-1"), client("busy")
    watcher = watch(Job("nightly"))
    take = "SELECT pg_backend_pid() FROM pg_advisory_lock(hashtext('nightly'))"
    (pid,) = pod.execute(take).fetchone() or ()
    assert not found(watcher.poll(), "pooler")
    with busy.transaction():
        assert busy.execute("SELECT pg_backend_pid()").fetchone() == (pid,)
        assert pod.execute("SELECT pg_advisory_unlock(hashtext('nightly'))").fetchone() == (False,)
    pod.close()
    busy.close()
    finding = soon(watcher, "pooler", job="nightly")
    assert (finding.pid, finding.severity) == (pid, "warning")
    assert finding.evidence.startswith("application_name while held: 'pod-1', 'busy'; held ")
    left = soon(watcher, "leaked", job="nightly")
    assert left.evidence.endswith("its last statement a COMMIT")
    assert left.suggestion.endswith(f": pglock-inspect kill {pid} --terminate")
    janitor.execute("SELECT pg_terminate_backend(%s)", [pid])
    wait_until(lambda: not watcher.poll().locks, "the lock is free")
    assert client("pod-2").execute("SELECT 1").fetchone() == (1,)


@pytest.mark.requires("pgbouncer")
def test_waiters_take_all_of_a_pool(pooler: Pooler, connect: Connect, watch: Watch) -> None:
    holder, client = connect("holder"), pooler(3)
    holder.execute(TAKE)
    watcher = watch(Job("nightly", limits=SOON), thresholds={"waiting-long": 0.03})
    for number in range(3):
        begin(client(f"web-{number}"), TAKE)
    wait_until(lambda: len(found(watcher.poll(), "waiting-long", severity="critical")) == 3, "all wait")
    report = watcher.poll()
    assert lock_of(report, holder).waiters == 3
    for finding in found(report, "waiting-long"):
        assert f"; held by pid {holder.info.backend_pid} (postgres, holder)" in finding.summary
    innocent = client("web-4")
    begin(innocent, "SELECT 'hello'")
    assert not select([innocent.fileno()], [], [], 0.2)[0]  # it waits in the pooler, where no view shows it
    holder.execute("SELECT pg_advisory_unlock_all()")
    assert finish(innocent) is None

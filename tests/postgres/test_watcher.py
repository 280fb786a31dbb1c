"""A watcher on a server that ends its session, restarts or fails over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from pglock_inspect.config import Settings
from pglock_inspect.model import Job
from pglock_inspect.schemes import key_of
from pglock_inspect.watch import Watcher
from tests.support.snapshots import begin_waiting, sleep_before_activity
from tests.support.waiting import wait_until
from tests.support.watching import begin, finish, found, lock_of, locks_of

if TYPE_CHECKING:
    from pglock_inspect.model import Held, Report
    from tests.support.servers import Connect, Connection, StartServer
    from tests.support.watching import Watch

NIGHTLY = Job("send_daily_digest")
TAKE = "SELECT pg_advisory_lock(hashtext('send_daily_digest'))"


def pid_of(watcher: Watcher) -> int:
    assert watcher.reader
    return watcher.reader.connection.info.backend_pid


def held(report: Report, connection: Connection) -> Held:
    held = lock_of(report, connection).held
    assert held
    return held


def test_a_job_is_named_with_its_holder_and_its_waiter(
    connect: Connect, janitor: Connection, watch: Watch
) -> None:
    holder, waiter = connect("replica-1"), connect("replica-2")
    holder.execute(TAKE)
    begin_waiting(waiter, TAKE, janitor)
    report = watch(NIGHTLY).poll()
    shown, waits = lock_of(report, holder), lock_of(report, waiter, granted=False)
    assert shown.key == waits.key == key_of("send_daily_digest", "hashtext")
    assert (shown.key.classid, shown.key.objid, shown.key.value) == (4294967295, 2337752054, -1957215242)
    assert shown.name
    assert shown.name.text == "send_daily_digest"
    assert shown.waiters == 1
    assert waits.blocked_by == (holder.info.backend_pid,)
    assert waits.queued_behind is None
    (state,) = report.jobs
    assert (state.held, state.waiters, state.database) == (1, 1, "postgres")


def test_a_queue_tells_who_is_ahead(connect: Connect, janitor: Connection, watch: Watch) -> None:
    holder, first, second = connect(), connect(), connect()
    holder.execute(TAKE)
    begin_waiting(first, TAKE, janitor)
    begin_waiting(second, TAKE, janitor)
    report = watch(NIGHTLY).poll()
    assert lock_of(report, first, granted=False).queued_behind == ()
    assert lock_of(report, second, granted=False).blocked_by == (holder.info.backend_pid,)
    assert lock_of(report, second, granted=False).queued_behind == (first.info.backend_pid,)
    assert lock_of(report, holder).waiters == 2


def test_a_holder_that_upgrades_waits_for_the_other_and_not_for_itself(
    connect: Connect, janitor: Connection, watch: Watch
) -> None:
    holder, other = connect(), connect()
    for connection in (holder, other):
        connection.execute(TAKE.replace("lock", "lock_shared"))
    begin_waiting(holder, TAKE, janitor)
    report = watch(NIGHTLY).poll()
    assert lock_of(report, holder).mode == "ShareLock"
    waits = lock_of(report, holder, granted=False)
    assert (waits.mode, waits.blocked_by) == ("ExclusiveLock", (other.info.backend_pid,))


def test_it_comes_back_after_its_session_was_ended(
    connect: Connect, janitor: Connection, watch: Watch
) -> None:
    worker = connect()
    begin(worker, f"{TAKE}; SELECT pg_sleep(60)")
    watcher = watch(NIGHTLY)
    watcher.poll()
    before = watcher.poll()
    ended = pid_of(watcher)
    janitor.execute("SELECT pg_terminate_backend(%s)", [ended])
    lost, back = watcher.poll(), watcher.poll()
    assert lost.failure == "connect"
    assert lost.error
    assert "server closed the connection unexpectedly; check that the server runs" in lost.error
    assert lost.server is None
    assert back.error is None
    assert pid_of(watcher) != ended
    # What was observed before still counts: the server did not restart.
    observed = held(back, worker)
    assert observed.evidence == "observed"
    assert (observed.seconds or 0) > (held(before, worker).seconds or 0)


def test_a_statement_that_takes_too_long_costs_one_poll_and_no_session(
    connect: Connect, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = watch()
    watcher.poll()
    kept = pid_of(watcher)
    assert watcher.reader
    watcher.reader.connection.execute("SET statement_timeout = 100")
    with monkeypatch.context() as patch:
        sleep_before_activity(patch)
        slow = watcher.poll()
    assert slow.failure == "timeout"
    connect().execute(TAKE)
    assert watcher.poll().error is None
    assert pid_of(watcher) == kept


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_after_a_restart_the_history_starts_anew(start_server: StartServer, how: str) -> None:
    server = start_server()
    with Watcher(server.dsn(), Settings(jobs=(NIGHTLY,))) as watcher:
        with psycopg.connect(server.dsn(), autocommit=True) as worker:
            begin(worker, f"{TAKE}; SELECT pg_sleep(60)")
            for _ in range(2):
                assert watcher.poll().error is None
            if how == "restart":
                server.stop("immediate")
            else:
                server.kill()
            # Sessions of a killed server may answer for a moment more.
            wait_until(lambda: watcher.poll().failure == "connect", "the server is away")
            assert watcher.poll().failure == "connect"
            finish(worker)
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as worker:
            assert locks_of(watcher.poll(), worker) == []
            begin(worker, f"{TAKE}; SELECT pg_sleep(60)")
            report = watcher.poll()
            while not locks_of(report, worker):
                report = watcher.poll()
            shown = held(report, worker)
            # Not by what was seen of the server before it restarted.
            assert shown.evidence in ("none", "observed")
            assert report.server
            assert report.server.started_at
            assert shown.at_most is not None
            assert shown.at_most <= (report.taken_at - report.server.started_at) / 1e6
            worker.cancel()
            finish(worker)


def test_the_socket_of_a_server_that_is_not_there_yet(start_server: StartServer) -> None:
    server = start_server(tcp=False)
    server.stop()
    with Watcher(server.dsn(), Settings()) as watcher:
        assert watcher.target == str(server.directory)
        report = watcher.poll()
        assert report.failure == "connect"
        server.start()
        assert watcher.poll().error is None


def test_a_full_lock_table_is_watched_by_who_was_there_before(start_server: StartServer) -> None:
    server = start_server({"max_locks_per_transaction": 10, "max_connections": 8})
    with (
        psycopg.connect(server.dsn(), autocommit=True) as hoarder,
        Watcher(server.dsn(), Settings()) as watcher,
        Watcher(server.dsn(), Settings()) as late,
    ):
        assert watcher.poll().error is None
        number = 0
        while True:
            try:
                hoarder.execute("SELECT pg_advisory_lock(%s)", [number])
            except psycopg.errors.OutOfMemory:
                break
            number += 1
        report = watcher.poll()
        assert len(locks_of(report, hoarder)) == number
        assert found(report, "lock-table-filling")[0].severity == "warning"
        assert late.poll().failure == "lock_table_full"
        hoarder.execute("SELECT pg_advisory_unlock_all()")
        assert late.poll().error is None
        assert not found(watcher.poll(), "lock-table-filling")

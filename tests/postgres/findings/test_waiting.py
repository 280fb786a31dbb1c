"""`waiting-long`, `holder-blocked` and `hidden-deadlock`: who waits for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.model import Job, Limits
from pglock_inspect.schemes import key_of
from tests.support.watching import await_lock, begin, finish, found, lock_of, soon

if TYPE_CHECKING:
    from tests.support.servers import Connect, Connection
    from tests.support.watching import Watch

SOON, LATE = Limits(max_wait=0.05), Limits(max_wait=60)
NIGHTLY = key_of("nightly", "hashtext")
TAKE = "SELECT pg_advisory_lock(hashtext('nightly'))"
SHARE = "SELECT pg_advisory_lock_shared(hashtext('nightly'))"


def test_a_long_wait_is_reported_with_who_holds_the_lock(connect: Connect, watch: Watch) -> None:
    holder, waiter = connect("worker-1"), connect("worker-2")
    holder.execute(TAKE)
    begin(waiter, TAKE)
    pids = holder.info.backend_pid, waiter.info.backend_pid
    finding = soon(watch(Job("nightly", limits=SOON)), "waiting-long", pid=pids[1])
    assert finding.severity == "warning"
    assert (finding.job, finding.key, finding.database) == ("nightly", NIGHTLY, "postgres")
    assert finding.summary.startswith(f"nightly: pid {pids[1]} (postgres, worker-2) has waited for ")
    assert finding.summary.endswith(f", allowed are 50 ms; held by pid {pids[0]} (postgres, worker-1)")
    assert finding.evidence.startswith("waited ")
    assert finding.evidence.endswith("; 1 waiting, 100 connections at most")
    assert finding.suggestion == (
        f"see what is in the way: pglock-inspect why {pids[0]}; "
        f"to give up waiting: pglock-inspect kill {pids[1]} --cancel"
    )


def test_a_short_wait_is_not_reported(connect: Connect, watch: Watch) -> None:
    holder, waiter = connect(), connect()
    holder.execute(TAKE)
    begin(waiter, TAKE)
    watcher = watch(Job("nightly", limits=LATE), limits=SOON)
    assert await_lock(watcher, waiter, granted=False).blocked_by == (holder.info.backend_pid,)
    soon(
        watch(limits=SOON), "waiting-long", pid=waiter.info.backend_pid
    )  # long enough, were it not for its job
    assert not found(watcher.poll(), "waiting-long")


def test_waiters_on_a_quarter_of_all_connections_are_critical(connect: Connect, watch: Watch) -> None:
    holder, *waiters = connect(), connect(), connect()
    holder.execute(TAKE)
    for waiter in waiters:
        begin(waiter, TAKE)
    crowded = watch(Job("nightly", limits=SOON), thresholds={"waiting-long": 0.02})  # 2 of 100
    almost = watch(Job("nightly", limits=SOON), thresholds={"waiting-long": 0.03})
    for waiter in waiters:
        assert soon(crowded, "waiting-long", pid=waiter.info.backend_pid).severity == "critical"
        assert soon(almost, "waiting-long", pid=waiter.info.backend_pid).severity == "warning"


def test_a_waiter_behind_another_names_that_one(connect: Connect, watch: Watch) -> None:
    reader, writer, latecomer = connect(), connect("writer"), connect()
    reader.execute(SHARE)
    watcher = watch(Job("nightly", limits=SOON))
    begin(writer, TAKE)
    await_lock(watcher, writer, granted=False)
    begin(latecomer, SHARE)  # does not conflict with the reader, but must not overtake the writer
    finding = soon(watcher, "waiting-long", pid=latecomer.info.backend_pid)
    pid = writer.info.backend_pid
    assert finding.summary.endswith(f"; queued behind pid {pid} (postgres, writer), active")
    assert lock_of(watcher.poll(), latecomer, granted=False).queued_behind == (pid,)


def test_waiting_for_a_prepared_transaction_leads_to_an_account_of_the_key(
    connect: Connect, watch: Watch
) -> None:
    preparer, waiter = connect(), connect()
    preparer.execute("BEGIN; SELECT pg_advisory_xact_lock(-7, 8); PREPARE TRANSACTION 'payout-17'")
    begin(waiter, "SELECT pg_advisory_lock(-7, 8)")
    finding = soon(watch(limits=SOON), "waiting-long", pid=waiter.info.backend_pid)
    assert finding.summary.endswith("; held by prepared transaction 'payout-17'")
    assert finding.suggestion.startswith("see what is in the way: pglock-inspect why -7,8; to give up")


def test_a_blocked_holder_is_reported_with_the_root(invoices: str, connect: Connect, watch: Watch) -> None:
    holder, middle, root = (connect(name) for name in ("migrate", "report", "psql"))
    root.execute(f"BEGIN; LOCK TABLE {invoices} IN ROW EXCLUSIVE MODE")
    holder.execute(TAKE)
    watcher = watch(Job("nightly"), thresholds={"holder-blocked": 0.05})
    begin(middle, f"BEGIN; LOCK TABLE {invoices} IN SHARE MODE")
    begin(holder, f"ALTER TABLE {invoices} ADD paid bool")
    finding = soon(watcher, "holder-blocked", job="nightly")
    assert finding.severity == "warning"
    assert (finding.pid, finding.key, finding.database) == (holder.info.backend_pid, NIGHTLY, "postgres")
    assert "has itself waited for a relation lock (AccessExclusiveLock) for " in finding.summary
    pid = root.info.backend_pid
    assert finding.summary.endswith(f", in the end for pid {pid} (postgres, psql), idle in transaction")
    assert finding.evidence.startswith("waits ")
    assert f"pid {pid}" in finding.evidence.partition(";")[0]
    assert finding.suggestion.endswith(f"pglock-inspect why {holder.info.backend_pid}")


def test_a_root_without_a_process_is_a_prepared_transaction(
    invoices: str, connect: Connect, watch: Watch, janitor: Connection
) -> None:
    holder, preparer = connect(), connect()
    preparer.execute(f"BEGIN; LOCK TABLE {invoices}; PREPARE TRANSACTION 'payout-17'")
    holder.execute(TAKE)
    begin(holder, f"ALTER TABLE {invoices} ADD paid bool")
    finding = soon(
        watch(Job("nightly"), thresholds={"holder-blocked": 0.05}), "holder-blocked", job="nightly"
    )
    assert finding.summary.endswith(", in the end for a prepared transaction")
    assert "blocked by a prepared transaction; " in finding.evidence
    janitor.execute("ROLLBACK PREPARED 'payout-17'")
    assert finish(holder) is None


def test_a_holder_that_waits_for_a_moment_or_works_is_not_blocked(
    invoices: str, connect: Connect, watch: Watch
) -> None:
    holder, root, busy = connect(), connect(), connect()
    root.execute(f"BEGIN; LOCK TABLE {invoices}")
    busy.execute("SELECT pg_advisory_lock(7)")
    begin(busy, "SELECT pg_sleep(60)")
    # The statement runs for long before it comes to wait; the waiting is what counts.
    begin(holder, f"{TAKE}; SELECT pg_sleep(0.3); LOCK TABLE {invoices}")
    watcher = watch(Job("nightly"), thresholds={"holder-blocked": 1e-6})
    soon(watcher, "holder-blocked", pid=holder.info.backend_pid)
    report = watcher.poll()
    blocked = report.chain[holder.info.backend_pid]
    assert blocked.session is not None
    assert blocked.session.query_start is not None
    assert blocked.waited_seconds is not None
    assert blocked.waited_seconds < (report.taken_at - blocked.session.query_start) / 1e6 - 0.25
    assert not found(report, "holder-blocked", pid=busy.info.backend_pid)
    assert not found(watch(Job("nightly")).poll(), "holder-blocked")


def test_an_index_build_behind_a_waiter_of_an_idle_holder_is_a_hidden_deadlock(
    invoices: str, connect: Connect, watch: Watch
) -> None:
    holder, waiter, builder = (connect(name) for name in ("one", "two", "one-ddl"))
    holder.execute(TAKE)
    begin(waiter, TAKE)
    watcher = watch(Job("nightly"))
    await_lock(watcher, waiter, granted=False)
    begin(builder, f"CREATE INDEX CONCURRENTLY ON {invoices} (id)")
    finding = soon(watcher, "hidden-deadlock", job="nightly")
    assert finding.severity == "critical"
    assert (finding.pid, finding.key, finding.database) == (waiter.info.backend_pid, NIGHTLY, "postgres")
    pids = [session.info.backend_pid for session in (builder, waiter, holder)]
    assert finding.summary == (
        f"nightly: an index build, pid {pids[0]} (postgres, one-ddl), waits for "
        f"pid {pids[1]} (postgres, two), which waits for this lock of pid {pids[2]} (postgres, one), idle"
    )
    assert f"pid {pids[2]} idle for " in finding.evidence
    assert finding.suggestion.endswith(f": pglock-inspect kill {pids[1]} --cancel")
    connect().execute("SELECT pg_cancel_backend(%s)", [pids[1]])
    assert finish(waiter) == "57014"
    assert finish(builder) is None
    assert not found(watcher.poll(), "hidden-deadlock")


def test_an_index_build_behind_somebody_at_work_is_no_deadlock(
    invoices: str, connect: Connect, watch: Watch
) -> None:
    holder, waiter, builder = connect(), connect(), connect()
    holder.execute(TAKE)
    begin(holder, "SELECT pg_sleep(60)")  # will end, and the lock with it
    begin(waiter, TAKE)
    watcher = watch(Job("nightly"), thresholds={"holder-blocked": 1e-6})
    await_lock(watcher, waiter, granted=False)
    builder.execute("SELECT pg_advisory_lock(7)")
    begin(builder, f"CREATE INDEX CONCURRENTLY ON {invoices} (id)")
    soon(watcher, "holder-blocked", pid=builder.info.backend_pid)  # it waits
    assert not found(watcher.poll(), "hidden-deadlock")

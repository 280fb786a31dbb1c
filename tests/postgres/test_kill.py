"""A signal reaches only who still is what was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from msgspec.structs import replace
from psycopg import sql

from pglock_inspect.errors import Refused
from pglock_inspect.kill import (
    as_seen,
    has_only_gone_on,
    order_for_holder,
    order_for_process,
    refusal,
    result,
)
from pglock_inspect.model import Instant
from pglock_inspect.postgres.act import act
from pglock_inspect.postgres.reader import _VIEWS
from pglock_inspect.present.meaning import locks_meant
from tests.support.pooler import pgbouncer
from tests.support.snapshots import begin_waiting
from tests.support.waiting import wait_until
from tests.support.watching import finish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.kill import Action, Order, Result, Seen
    from pglock_inspect.watch import Watcher
    from tests.support.servers import Connect, Connection, StartServer
    from tests.support.watching import Watch

TAKE, FREE = "SELECT pg_advisory_lock(42)", "SELECT pg_advisory_unlock(42)"
CANCELLED = "57014"


def pid(connection: Connection) -> int:
    return connection.info.backend_pid


def shown(watcher: Watcher, connection: Connection, wanted: Action | None = None) -> Order:
    return order_for_process(watcher.poll(), pid(connection), wanted)


def do(watcher: Watcher, order: Order, *, dry: bool = False) -> Seen:
    assert watcher.reader
    return act(watcher.reader, order, dry=dry)


def why_not(watcher: Watcher, order: Order) -> str:
    """The reason of a refusal, after which the process lives on."""
    seen = do(watcher, order)
    assert seen.signalled is None
    reason = refusal(order, seen)
    assert reason
    return reason


def outcome(watcher: Watcher, order: Order) -> str:
    """What is true as soon as it is settled."""

    def settled() -> Result | None:
        last = result(order, do(watcher, order, dry=True), watcher.poll())
        return last if last.settled else None

    last = wait_until(settled, "the signal has taken effect")
    assert last is not None
    assert last.done
    return last.text


def test_an_idle_holder_is_ended_and_the_next_one_gets_the_lock(
    connect: Connect, watch: Watch, janitor: Connection
) -> None:
    holder, waiter = connect("holder"), connect("waiter")
    holder.execute(TAKE)
    begin_waiting(waiter, TAKE, janitor)
    watcher = watch()
    order = shown(watcher, holder)
    assert order.action == "terminate"
    seen = do(watcher, order)
    assert seen.signalled
    assert refusal(order, seen) is None
    assert outcome(watcher, order) == (
        f"pid {pid(holder)} (postgres, holder) is gone; "
        f"key 42 is held by pid {pid(waiter)} (postgres, waiter) now"
    )
    with pytest.raises(psycopg.errors.AdminShutdown):
        holder.execute("SELECT 1")
    assert finish(waiter) is None


def test_a_waiter_is_cancelled_and_the_holder_keeps_the_lock(
    connect: Connect, watch: Watch, janitor: Connection
) -> None:
    holder, waiter = connect("holder"), connect("waiter")
    holder.execute(TAKE)
    begin_waiting(waiter, TAKE, janitor)
    watcher = watch()
    order = shown(watcher, waiter)
    assert order.action == "cancel"
    assert do(watcher, order).signalled
    assert outcome(watcher, order) == f"pid {pid(waiter)} (postgres, waiter) no longer waits for key 42"
    assert finish(waiter) == CANCELLED
    assert holder.execute(FREE).fetchone() == (True,)


def test_a_waiter_can_be_ended_where_that_is_said(
    connect: Connect, watch: Watch, janitor: Connection
) -> None:
    holder, waiter = connect("holder"), connect("waiter")
    holder.execute(TAKE)
    begin_waiting(waiter, TAKE, janitor)
    watcher = watch()
    order = shown(watcher, waiter, "terminate")
    assert do(watcher, order).signalled
    assert outcome(watcher, order).startswith(f"pid {pid(waiter)} (postgres, waiter) is gone")
    assert holder.execute(FREE).fetchone() == (True,)


def test_who_holds_and_waits_is_asked_about(connect: Connect, watch: Watch, janitor: Connection) -> None:
    holder, both = connect("holder"), connect("both")
    holder.execute(TAKE)
    both.execute("SELECT pg_advisory_lock(43)")
    begin_waiting(both, TAKE, janitor)
    watcher = watch()
    with pytest.raises(Refused, match=r"holds key 43 and waits for key 42: say --terminate .* or --cancel"):
        shown(watcher, both)
    order = shown(watcher, both, "cancel")
    assert do(watcher, order).signalled
    assert finish(both) == CANCELLED
    assert both.execute("SELECT pg_advisory_unlock(43)").fetchone() == (True,)  # it kept that


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ("SELECT", "would change nothing, since it is idle; --terminate ends it"),
        ("BEGIN", "would change nothing, since it is idle in transaction; --terminate ends it"),
        ("SELECT pg_sleep(60)", "would break off its work, and leave it the lock if of session level"),
    ],
)
def test_a_holder_is_never_cancelled(
    work: str, reason: str, connect: Connect, watch: Watch, janitor: Connection
) -> None:
    holder = connect("holder")
    holder.execute(TAKE)
    if "sleep" in work:
        holder.pgconn.send_query(work.encode())
        active = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
        wait_until(lambda: janitor.execute(active, [pid(holder)]).fetchone() is not None, "it sleeps")
    else:
        holder.execute(work.encode())
    watcher = watch()
    with pytest.raises(Refused, match=reason):
        shown(watcher, holder, "cancel")
    report = watcher.poll()
    with pytest.raises(Refused, match=reason):
        order_for_holder(report, locks_meant(report, "42"), "42", "cancel")


def test_a_key_that_changed_hands_ends_nobody(connect: Connect, watch: Watch) -> None:
    first, second = connect("first"), connect("second")
    first.execute(TAKE)
    watcher = watch()
    order = shown(watcher, first)
    first.execute(FREE)
    second.execute(TAKE)
    assert why_not(watcher, order) == (
        f"pid {pid(first)} (postgres, first) no longer holds key 42, "
        f"but pid {pid(second)} does: nothing was done"
    )
    second.execute(FREE)
    assert why_not(watcher, order).endswith("no longer holds key 42: nothing was done")
    assert first.execute("SELECT 1").fetchone() == second.execute("SELECT 1").fetchone() == (1,)


def test_a_waiter_that_got_the_lock_meanwhile_is_left_alone(
    connect: Connect, watch: Watch, janitor: Connection
) -> None:
    holder, waiter = connect("holder"), connect("waiter")
    holder.execute(TAKE)
    begin_waiting(waiter, f"{TAKE}, pg_sleep(60)", janitor)
    watcher = watch()
    order = shown(watcher, waiter)
    holder.execute(FREE)
    granted = "SELECT FROM pg_locks WHERE pid = %s AND locktype = 'advisory' AND granted"
    wait_until(lambda: janitor.execute(granted, [pid(waiter)]).fetchone() is not None, "it is granted")
    assert "no longer waits for key 42, but got it meanwhile" in why_not(watcher, order)
    still = "SELECT state FROM pg_stat_activity WHERE pid = %s"
    assert janitor.execute(still, [pid(waiter)]).fetchone() == ("active",)


def test_a_waiter_that_gave_up_is_left_alone(connect: Connect, watch: Watch, janitor: Connection) -> None:
    holder, waiter = connect("holder"), connect("waiter")
    holder.execute(TAKE)
    begin_waiting(waiter, TAKE, janitor)
    watcher = watch()
    order = shown(watcher, waiter)
    waiter.cancel_safe()
    assert finish(waiter) == CANCELLED
    assert "no longer waits for key 42, but gave up or went on" in why_not(watcher, order)


def test_a_session_that_took_the_lock_anew_is_another_matter(connect: Connect, watch: Watch) -> None:
    holder = connect("holder")
    holder.execute(TAKE)
    watcher = watch()
    order = shown(watcher, holder)
    holder.execute(FREE)
    holder.execute(TAKE)
    seen = do(watcher, order)
    assert seen.signalled is None
    assert has_only_gone_on(order, seen)
    assert "has run something since it was shown" in str(refusal(order, seen))
    assert do(watcher, as_seen(order, seen)).signalled


def test_a_pid_that_is_another_session_by_now_is_left_alone(connect: Connect, watch: Watch) -> None:
    holder = connect("holder")
    holder.execute(TAKE)
    watcher = watch()
    order = shown(watcher, holder)
    session = order.lock.session
    assert session
    assert session.backend_start
    before = replace(session, backend_start=Instant(session.backend_start - 1))
    recycled = replace(order, lock=replace(order.lock, session=before))
    assert f"pid {pid(holder)} is another session now, which began at 20" in why_not(watcher, recycled)
    assert not has_only_gone_on(recycled, do(watcher, recycled))
    assert do(watcher, order).signalled


def test_a_session_that_is_gone_is_told(connect: Connect, watch: Watch, janitor: Connection) -> None:
    holder = connect("holder")
    holder.execute(TAKE)
    watcher = watch()
    order = shown(watcher, holder)
    holder.close()
    lives = "SELECT FROM pg_stat_activity WHERE pid = %s"
    wait_until(lambda: janitor.execute(lives, [order.pid]).fetchone() is None, "it is gone")
    assert why_not(watcher, order) == f"pid {order.pid} (postgres, holder) is gone: nothing was done"


def test_mode_key_and_database_have_to_be_those_that_were_shown(
    connect: Connect, watch: Watch, database: str
) -> None:
    holder = connect("holder")
    holder.execute("SELECT pg_advisory_lock_shared(7, -1)")
    watcher = watch()
    order = shown(watcher, holder)
    lock = order.lock
    for other in (
        replace(lock, mode="ExclusiveLock"),
        replace(lock, database=database),
        replace(lock, key=lock.key._replace(classid=8)),
        replace(lock, key=lock.key._replace(objid=1)),
        replace(lock, key=lock.key._replace(objsubid=1)),
    ):
        assert "no longer holds" in why_not(watcher, replace(order, lock=other))
    assert do(watcher, order).signalled


def test_a_look_changes_nothing(connect: Connect, watch: Watch) -> None:
    holder = connect("holder")
    holder.execute(TAKE)
    watcher = watch()
    order = shown(watcher, holder)
    seen = do(watcher, order, dry=True)
    assert seen.holds
    assert seen.signalled is None
    assert refusal(order, seen) is None
    assert holder.execute(FREE).fetchone() == (True,)


def test_the_views_serve_where_the_functions_are_closed(connect: Connect, watch: Watch) -> None:
    first, second = connect("first"), connect("second")
    first.execute(TAKE)
    watcher = watch()
    order = shown(watcher, first)
    assert watcher.reader
    watcher.reader._use(_VIEWS)
    first.execute(FREE)
    second.execute(TAKE)
    assert f"but pid {pid(second)} does" in why_not(watcher, order)
    assert do(watcher, shown(watcher, second)).signalled


@pytest.fixture
def roles(janitor: Connection) -> Iterator[tuple[str, str]]:
    """A role of an operator, and one of a worker."""
    names = ("pglock_operator", "pglock_worker")
    for name in names:
        janitor.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield names
    janitor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE 'pglock_%'")
    for name in names:
        janitor.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_a_role_that_may_not_is_told_what_to_grant(
    connect: Connect, watch: Watch, janitor: Connection, roles: tuple[str, str]
) -> None:
    operator, worker = roles
    holder = connect("holder", user=worker)
    holder.execute(TAKE)
    watcher = watch(dsn=connect("login", user=operator).info.dsn)
    order = shown(watcher, holder)
    with pytest.raises(Refused) as refused:
        do(watcher, order)
    assert str(refused.value) == (
        f"role {operator} may not signal sessions of role {worker}: GRANT pg_signal_backend TO {operator}, "
        f"or let a superuser run SELECT pg_terminate_backend({pid(holder)})"
    )
    janitor.execute(f"GRANT pg_signal_backend TO {operator}".encode())
    assert order.backend_start is None  # hidden from this role: compared is what it sees
    holder.execute(FREE)
    assert "no longer holds" in why_not(watcher, order)
    holder.execute(TAKE)
    assert do(watcher, order).signalled
    assert outcome(watcher, order).startswith(f"pid {pid(holder)} ({worker}, holder) is gone")


def test_only_superusers_end_superusers(
    connect: Connect, watch: Watch, janitor: Connection, roles: tuple[str, str]
) -> None:
    operator, _ = roles
    janitor.execute(f"GRANT pg_signal_backend, pg_monitor TO {operator}".encode())
    holder = connect("holder")
    holder.execute(TAKE)
    watcher = watch(dsn=connect("login", user=operator).info.dsn)
    with pytest.raises(
        Refused, match="belongs to superuser postgres: only a superuser may run SELECT pg_term"
    ):
        do(watcher, shown(watcher, holder))
    assert holder.execute(FREE).fetchone() == (True,)


def test_a_full_lock_table_does_not_protect_who_filled_it(start_server: StartServer, watch: Watch) -> None:
    server = start_server({"max_connections": 10, "max_locks_per_transaction": 10})
    with psycopg.connect(server.dsn(application_name="hog"), autocommit=True) as hog:
        watcher = watch(dsn=server.dsn())
        watcher.poll()
        with pytest.raises(psycopg.errors.OutOfMemory):
            hog.execute("SELECT pg_advisory_lock(key) FROM generate_series(1, 100000) AS key")
        with pytest.raises(psycopg.OperationalError, match="out of shared memory"):
            psycopg.connect(server.dsn(dbname="template1"))
        order = shown(watcher, hog)
        assert order.held > 200
        assert do(watcher, order).signalled
        assert outcome(watcher, order).startswith(f"pid {pid(hog)} (postgres, hog) is gone")
    psycopg.connect(server.dsn(dbname="template1")).close()


def test_several_holders_are_listed_and_a_prepared_one_gets_its_statement(
    connect: Connect, watch: Watch
) -> None:
    first, second, preparer = connect("first"), connect("second"), connect("preparer")
    for session in (first, second):
        session.execute("SELECT pg_advisory_lock_shared(42)")
    preparer.execute("BEGIN")
    preparer.execute("SELECT pg_advisory_xact_lock(43)")
    preparer.execute("PREPARE TRANSACTION 'it''s left'")
    report = watch().poll()
    with pytest.raises(Refused, match="'42' is held by ") as several:
        order_for_holder(report, locks_meant(report, "42"), "42", None)
    for session in (first, second):
        assert f"pid {pid(session)}" in str(several.value)
    with pytest.raises(Refused, match="which no signal reaches: in database postgres, run") as prepared:
        order_for_holder(report, locks_meant(report, "43"), "43", "terminate")
    instead = prepared.value.instead
    assert instead == "ROLLBACK PREPARED 'it''s left';  -- in database postgres"
    preparer.execute(instead.encode())
    assert preparer.execute("SELECT pg_try_advisory_lock(43)").fetchone() == (True,)


@pytest.mark.requires("pgbouncer")
def test_through_a_pooler_it_works_alike(dsn: str, connect: Connect, watch: Watch) -> None:
    holder = connect("holder")
    holder.execute(TAKE)
    with pgbouncer(dsn, "transaction") as through, watch(dsn=through) as watcher:
        order = shown(watcher, holder)
        holder.execute(FREE)
        assert "no longer holds" in why_not(watcher, order)
        holder.execute(TAKE)
        order = shown(watcher, holder)
        assert do(watcher, order).signalled
        assert outcome(watcher, order).startswith(f"pid {pid(holder)} (postgres, holder) is gone")

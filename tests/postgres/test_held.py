"""How long a lock has been held, by each kind of evidence that a server gives, against the truth."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Held, Job, seconds_between, to_instant
from tests.support.watching import begin, lock_of, locks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.model import Instant, Report
    from pglock_inspect.watch import Watcher
    from tests.support.servers import Connect, Connection
    from tests.support.watching import Watch

KEY = AdvisoryKey.from_bigint(7)
TAKE, TAKE_XACT = "SELECT pg_advisory_lock(7)", "SELECT pg_advisory_xact_lock(7)"
PER_TRANSACTION = Job("nightly", key=KEY, scope="transaction")
A_WHILE = 0.3


class Taken:
    """Takes a lock, and knows between which instants of the server's clock that was."""

    def __init__(self, connection: Connection, statement: str) -> None:
        self.connection = connection
        self.earliest = now(connection)
        connection.execute(statement.encode())
        self.latest = now(connection)

    def held(self, report: Report) -> Held:
        """What a report says of it, once that is found to agree with the truth."""
        (lock,) = locks_of(report, self.connection)
        assert lock.held
        shortest = seconds_between(self.latest, report.taken_at)
        longest = seconds_between(self.earliest, report.taken_at)
        assert lock.held.at_least is None or lock.held.at_least <= longest
        assert lock.held.at_most is None or lock.held.at_most >= shortest
        ordered = (lock.held.at_least or 0, lock.held.seconds, lock.held.at_most)
        known = [each for each in ordered if each is not None]
        assert known == sorted(known)
        return lock.held


def now(connection: Connection) -> Instant:
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row
    return to_instant(row[0])


def start_of(connection: Connection, column: str, janitor: Connection) -> Instant:
    query = f"SELECT {column} FROM pg_stat_activity WHERE pid = %s".encode()
    row = janitor.execute(query, [connection.info.backend_pid]).fetchone()
    assert row
    return to_instant(row[0])


def poll_while_active(watcher: Watcher, connection: Connection) -> Report:
    """A poll that shows the session at its statement."""
    while True:
        report = watcher.poll()
        session = lock_of(report, connection).session
        if session and session.state == "active":
            return report


@pytest.mark.parametrize("state", ["idle", "idle in transaction", "idle in transaction (aborted)"])
def test_an_idle_session_has_held_it_at_least_since_it_is_idle(
    connect: Connect, watch: Watch, janitor: Connection, state: str
) -> None:
    worker = connect()
    taken = Taken(worker, TAKE)
    if state != "idle":
        worker.execute("BEGIN")
    if state == "idle in transaction (aborted)":
        with pytest.raises(psycopg.Error):
            worker.execute("SELECT 1/0")
    time.sleep(A_WHILE)
    report = watch().poll()
    held = taken.held(report)
    session = lock_of(report, worker).session
    assert session
    assert session.state == state
    assert held.evidence == "session_state"
    expected = seconds_between(start_of(worker, "state_change", janitor), report.taken_at)
    assert held.seconds == held.at_least == pytest.approx(expected)
    assert expected >= A_WHILE
    assert held.at_most == pytest.approx(
        seconds_between(start_of(worker, "backend_start", janitor), report.taken_at)
    )


def test_a_known_transaction_level_lock_is_no_older_than_its_transaction(
    connect: Connect, watch: Watch, janitor: Connection
) -> None:
    worker = connect()
    worker.execute("BEGIN")
    worker.execute("SELECT 1")
    time.sleep(A_WHILE)
    taken = Taken(worker, TAKE_XACT)
    report = watch(PER_TRANSACTION).poll()
    held = taken.held(report)
    expected = seconds_between(start_of(worker, "xact_start", janitor), report.taken_at)
    assert held.evidence == "transaction"
    assert held.seconds == held.at_most == pytest.approx(expected)
    assert held.at_least is not None
    assert expected >= A_WHILE
    assert held.at_least < expected
    assert lock_of(report, worker).scope == "transaction"


def test_each_transaction_takes_it_anew(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch(PER_TRANSACTION)
    begin_and_take = f"BEGIN; {TAKE_XACT}"
    worker.execute(begin_and_take.encode())
    watcher.poll()
    time.sleep(A_WHILE)
    worker.execute(f"COMMIT; {begin_and_take}".encode())
    held = lock_of(watcher.poll(), worker).held
    assert held
    assert held.at_most is not None
    assert held.at_most < A_WHILE


def test_a_session_level_lock_is_held_over_transactions(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch()
    taken = Taken(worker, TAKE)
    watcher.poll()
    time.sleep(A_WHILE)
    worker.execute("BEGIN; COMMIT; BEGIN")
    held = taken.held(watcher.poll())
    assert held.evidence == "observed"
    assert (held.seconds or 0) >= A_WHILE


def test_a_statement_that_takes_no_lock_began_after_it_was_taken(
    connect: Connect, watch: Watch, janitor: Connection
) -> None:
    worker = connect()
    taken = Taken(worker, TAKE)
    begin(worker, "SELECT pg_sleep(60)")
    time.sleep(A_WHILE)
    report = poll_while_active(watch(), worker)
    held = taken.held(report)
    assert held.evidence == "statement"
    assert held.seconds == pytest.approx(
        seconds_between(start_of(worker, "query_start", janitor), report.taken_at)
    )
    assert held.at_least is None  # what a function does within, its text does not tell


@pytest.mark.parametrize(
    "statement",
    [
        f"{TAKE}, pg_sleep(60)",
        "DO $$ BEGIN PERFORM pg_sleep(60); END $$",
        "/* job=7 */ DO $$ BEGIN PERFORM pg_sleep(60); END $$",
        "-- a comment\n  CALL pglock_sleep()",
        "SET search_path TO DEFAULT; CALL pglock_sleep()",
    ],
)
def test_a_statement_that_may_have_taken_it_tells_nothing(
    connect: Connect, watch: Watch, database: str, dsn: str, statement: str
) -> None:
    worker = connect(dbname=database)
    worker.execute("CREATE PROCEDURE pglock_sleep() LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); END'")
    taken = Taken(worker, TAKE)
    begin(worker, statement)
    time.sleep(A_WHILE)
    report = poll_while_active(watch(dsn=make_conninfo(dsn, dbname=database)), worker)
    held = taken.held(report)
    assert (held.evidence, held.seconds, held.at_least) == ("none", None, None)
    assert held.at_most is not None  # as every session began once
    assert held.at_most >= A_WHILE


def test_polls_in_a_row_tell_how_long_they_saw_it(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch()
    without = watcher.poll()
    taken = Taken(worker, TAKE)
    first = watcher.poll()
    assert taken.held(first).at_most == pytest.approx(seconds_between(without.taken_at, first.taken_at))
    begin(worker, f"{TAKE}, pg_sleep(60)")
    time.sleep(A_WHILE)
    last = poll_while_active(watcher, worker)
    held = taken.held(last)
    assert held.evidence == "observed"
    assert held.seconds == pytest.approx(seconds_between(first.taken_at, last.taken_at))
    assert held.at_most == pytest.approx(seconds_between(without.taken_at, last.taken_at))
    assert held.at_least is None


def test_a_prepared_transaction_has_held_it_at_least_since_then(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute("BEGIN")
    worker.execute(TAKE_XACT)
    earliest = now(worker)
    worker.execute("PREPARE TRANSACTION 'left'")
    latest = now(worker)
    time.sleep(A_WHILE)
    report = watch().poll()
    (lock,) = report.locks
    assert lock.held
    assert lock.held.evidence == "prepared"
    assert lock.held.seconds == lock.held.at_least
    assert lock.held.at_least is not None
    shortest, longest = (seconds_between(moment, report.taken_at) for moment in (latest, earliest))
    assert shortest <= lock.held.at_least <= longest
    assert lock.held.at_most is None
    assert lock.scope == "transaction"


def test_another_holder_begins_anew(connect: Connect, watch: Watch) -> None:
    first, second, watcher = connect(), connect(), watch()
    first.execute(TAKE.encode())
    watcher.poll()
    time.sleep(A_WHILE)
    between = watcher.poll()
    first.execute("SELECT pg_advisory_unlock_all()")
    taken = Taken(second, TAKE)
    report = watcher.poll()
    held = taken.held(report)
    assert held.at_most == pytest.approx(seconds_between(between.taken_at, report.taken_at))


def test_another_mode_is_another_lock(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch()
    worker.execute(TAKE.encode())
    before = watcher.poll()
    time.sleep(A_WHILE)
    worker.execute("SELECT pg_advisory_lock_shared(7)")
    report = watcher.poll()
    ages = {lock.mode: lock.held for lock in locks_of(report, worker)}
    exclusive, shared = ages["ExclusiveLock"], ages["ShareLock"]
    assert exclusive
    assert shared
    assert (exclusive.seconds or 0) >= A_WHILE
    assert shared.at_most == pytest.approx(seconds_between(before.taken_at, report.taken_at))


@pytest.fixture
def nobody(janitor: Connection) -> Iterator[str]:
    janitor.execute("CREATE ROLE pglock_nobody LOGIN")
    yield "pglock_nobody"
    janitor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pglock_nobody'")
    janitor.execute("DROP ROLE pglock_nobody")


def test_without_pg_monitor_polls_still_tell(connect: Connect, watch: Watch, dsn: str, nobody: str) -> None:
    worker, watcher = connect(), watch(dsn=make_conninfo(dsn, user=nobody))
    taken = Taken(worker, TAKE)
    first = watcher.poll()
    assert taken.held(first) == Held(None, None, None, "none")
    time.sleep(A_WHILE)
    last = watcher.poll()
    held = taken.held(last)
    assert (held.at_least, held.at_most, held.evidence) == (None, None, "observed")
    assert held.seconds == pytest.approx(seconds_between(first.taken_at, last.taken_at))


def test_a_waiter_has_waited_since_the_server_says_or_since_it_was_seen(
    connect: Connect, watch: Watch, janitor: Connection
) -> None:
    holder, waiter, watcher = connect(), connect(), watch()
    holder.execute(TAKE.encode())
    begin(waiter, TAKE)
    first = watcher.poll()
    while not locks_of(first, waiter, granted=False):
        first = watcher.poll()
    time.sleep(A_WHILE)
    last = watcher.poll()
    waited = lock_of(last, waiter, granted=False).waited_seconds
    assert waited is not None
    assert last.server
    if last.server.shows_waitstart:
        began = start_of(waiter, "query_start", janitor)
        assert A_WHILE <= waited <= seconds_between(began, last.taken_at)
    else:
        assert lock_of(first, waiter, granted=False).waited_seconds is None
        assert waited == pytest.approx(seconds_between(first.taken_at, last.taken_at))

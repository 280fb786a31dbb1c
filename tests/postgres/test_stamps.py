"""Stamps taken in plain SQL, among it the statements of `docs/stamps.md`."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from psycopg import RawCursor
from psycopg.conninfo import make_conninfo

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job
from tests.support.waiting import wait_until
from tests.support.watching import begin, finish, found, held_of, lock_of, locks_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.keys import Value
    from tests.support.servers import Connect, Connection
    from tests.support.watching import Watch

PAGE = Path(__file__).parents[2].joinpath("docs", "stamps.md").read_text()
TAKE, RELEASE, TAKE_XACT = re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
WAIT = TAKE.replace("pg_try_advisory_lock(key)", "pg_advisory_lock(key) IS NOT NULL")
NAME = "send_daily_digest"
JOB = Job(NAME)


def execute(connection: Connection, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Run a statement as drivers do that send `$1` and its value."""
    with RawCursor(connection) as cursor:
        return cursor.execute(statement.encode(), parameters or None).fetchall()


def second(clock: float) -> int:
    return int(clock) & 0xFFFFFFFF


def clock(connection: Connection) -> float:
    ((now,),) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()
    return float(now)


@pytest.mark.parametrize("name", [NAME, "nightly", "sync", "résumé"])
def test_a_lock_of_the_page_tells_since_when_it_is_held(connect: Connect, watch: Watch, name: str) -> None:
    worker = connect()
    before = clock(worker)
    ((stamp, stamped),) = execute(worker, TAKE, name)
    after = clock(worker)
    assert stamped
    assert second(before) <= stamp & 0xFFFFFFFF <= second(after)

    report = watch(Job(name)).poll()
    lock = lock_of(report, worker)  # the stamp is not shown as a lock of its own
    assert lock.name is not None
    assert lock.name.text == name
    assert lock.held is not None
    assert lock.held.evidence == "stamp"
    assert lock.held.at_least is not None
    assert lock.held.seconds is not None
    assert lock.held.at_most is not None
    assert lock.held.at_least <= lock.held.seconds <= lock.held.at_most <= lock.held.seconds + 1
    assert found(report, "stamp-mismatch") == []

    assert execute(worker, RELEASE, name, stamp) == [(True, True)]
    assert locks_of(watch().poll(), worker) == []


def test_who_does_not_get_the_lock_takes_no_stamp(connect: Connect, watch: Watch) -> None:
    holder, other = connect(), connect()
    execute(holder, TAKE, NAME)
    assert execute(other, TAKE, NAME) == []
    assert execute(other, TAKE_XACT, NAME) == [(False,)]
    assert locks_of(watch().poll(), other) == []


def test_after_a_wait_the_stamp_tells_when_it_was_over(connect: Connect, watch: Watch) -> None:
    holder, waiter, watcher = connect(), connect(), watch()
    ((stamp, _),) = execute(holder, TAKE, NAME)
    statement = WAIT.replace("$1", f"'{NAME}'")
    begin(waiter, statement)
    wait_until(lambda: locks_of(watcher.poll(), waiter, granted=False), "it waits")
    time.sleep(1.2)
    released = clock(holder)
    execute(holder, RELEASE, NAME, stamp)
    assert finish(waiter) is None

    report = watch().poll()
    held = held_of(report, waiter)
    assert held.evidence == "stamp"
    assert held.seconds is not None
    taken = clock(holder) - held.seconds
    assert taken >= released - 1.1  # the second in which the wait was over, not the one in which it began


def test_a_lock_of_a_transaction_loses_its_stamp_with_it(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch(JOB)
    worker.execute("BEGIN")
    assert execute(worker, TAKE_XACT, NAME) == [(True,)]
    assert held_of(watcher.poll(), worker).evidence == "stamp"
    worker.execute("COMMIT")
    assert locks_of(watcher.poll(), worker) == []


def test_a_savepoint_takes_back_both(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch(JOB)
    worker.execute("BEGIN; SAVEPOINT here")
    execute(worker, TAKE_XACT, NAME)
    worker.execute("ROLLBACK TO SAVEPOINT here")
    assert locks_of(watcher.poll(), worker) == []


def test_a_prepared_transaction_keeps_its_stamp(connect: Connect, watch: Watch) -> None:
    worker = connect()
    worker.execute("BEGIN")
    execute(worker, TAKE_XACT, NAME)
    time.sleep(0.2)
    worker.execute("PREPARE TRANSACTION 'transfer-17'")
    (lock,) = watch(JOB).poll().locks
    assert lock.prepared is not None
    assert lock.held is not None
    assert (lock.held.evidence, lock.pid) == ("stamp", None)
    assert lock.held.at_least is not None
    assert lock.held.seconds is not None
    assert lock.held.seconds >= lock.held.at_least + 0.2 - 1


@pytest.mark.parametrize(
    "value",
    [0, -1, -1957215242, (1 << 31) - 1, 1 << 31, 7 << 32 | 42, -(1 << 63), (1 << 63) - 1],
)
def test_the_low_half_of_a_bigint_is_what_the_page_says(connect: Connect, watch: Watch, value: int) -> None:
    worker = connect()
    low, now = "$1::bigint::bit(32)::int", "$2::bigint::bit(32)::int"
    take = f"SELECT pg_advisory_lock($1), pg_advisory_lock_shared({low}, {now})"
    execute(worker, take, value, int(clock(worker)))
    lock = lock_of(watch().poll(), worker)
    assert lock.key.value == value
    assert lock.held is not None
    assert lock.held.evidence == "stamp"


@pytest.mark.parametrize("pair", [(7, 42), (7, -42), (-1, -(1 << 31)), (0, (1 << 31) - 1)])
def test_a_pair_is_known_by_its_second_key(connect: Connect, watch: Watch, pair: tuple[int, int]) -> None:
    worker = connect()
    take = "SELECT pg_advisory_lock($1, $2), pg_advisory_lock_shared($2, $3::bigint::bit(32)::int)"
    execute(worker, take, *pair, int(clock(worker)))
    lock = lock_of(watch().poll(), worker)
    assert (lock.key.value, lock.held and lock.held.evidence) == (pair, "stamp")


@pytest.mark.parametrize(
    "moment", [(1 << 31) + 5, (1 << 32) - 1, (1 << 32) + 7], ids=["2038", "the last second", "after it"]
)
def test_the_second_is_an_int4_in_every_century(connect: Connect, moment: int) -> None:
    worker = connect()
    moments = f"to_timestamp({moment}.75)"
    as_int4 = TAKE.replace("clock_timestamp()", moments)
    ((stamp, stamped),) = execute(worker, as_int4, NAME)
    shown = worker.execute(
        "SELECT objid::bigint FROM pg_locks WHERE objsubid = 2 AND mode = 'ShareLock'"
    ).fetchall()
    assert stamped
    assert shown == [(moment % (1 << 32),)]
    assert execute(worker, RELEASE, NAME, stamp) == [(True, True)]


def take(connection: Connection, value: Value, seconds_ago: float = 0) -> None:
    """Take a lock, and a stamp for it that is not true."""
    key = AdvisoryKey.from_value(value)
    moment = int(clock(connection) - seconds_ago)
    execute(connection, f"SELECT pg_advisory_lock({key.sql_arguments})")
    execute(
        connection,
        "SELECT pg_advisory_lock_shared($1::bigint::bit(32)::int, $2::bigint::bit(32)::int)",
        key.objid,
        moment,
    )


@pytest.mark.parametrize(
    ("seconds_ago", "reason"),
    [(4, "its time contradicts what is proven"), (-60, "it names a second to come")],
)
def test_a_stamp_that_cannot_be_true_is_told_of(
    connect: Connect, watch: Watch, janitor: Connection, seconds_ago: float, reason: str
) -> None:
    uptime = "SELECT clock_timestamp() - pg_postmaster_start_time() > '6 s'"
    wait_until(lambda: janitor.execute(uptime).fetchone() == (True,), "the server is older than the stamp")
    worker = connect()
    take(worker, 42, seconds_ago)
    report = watch().poll()
    (finding,) = found(report, "stamp-mismatch", pid=worker.info.backend_pid)
    assert reason in finding.summary
    assert len(locks_of(report, worker)) == 2
    assert not [lock for lock in locks_of(report, worker) if lock.held and lock.held.evidence == "stamp"]


def test_a_stamp_without_its_lock_is_told_of(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch(JOB)
    ((stamp, _),) = execute(worker, TAKE, NAME)
    assert held_of(watcher.poll(), worker).evidence == "stamp"
    execute(worker, "SELECT pg_advisory_unlock(hashtext($1))", NAME)
    report = watcher.poll()
    (finding,) = found(report, "stamp-mismatch", pid=worker.info.backend_pid)
    assert "holds no lock that it could be about" in finding.summary
    assert lock_of(report, worker).key.value == (-1957215242, stamp)


def test_of_two_locks_a_stamp_could_be_about_it_is_about_none(connect: Connect, watch: Watch) -> None:
    worker, watcher = connect(), watch()
    take(worker, 42)
    worker.execute("SELECT pg_advisory_lock(%s)", [7 << 32 | 42])
    (finding,) = found(watcher.poll(), "stamp-mismatch", pid=worker.info.backend_pid)
    assert "2 locks of the session end in these 32 bits" in finding.summary
    worker.execute("SELECT pg_advisory_unlock(%s)", [7 << 32 | 42])
    assert held_of(watcher.poll(), worker).evidence == "stamp"


@pytest.fixture
def nobody(janitor: Connection) -> Iterator[str]:
    """The name of a role that may not see what other roles' sessions do."""
    janitor.execute("CREATE ROLE pglock_nobody LOGIN PASSWORD 'of a test'")
    yield "pglock_nobody"
    janitor.execute("DROP ROLE pglock_nobody")


def test_who_may_not_see_other_sessions_sees_their_stamps(
    connect: Connect, watch: Watch, dsn: str, nobody: str
) -> None:
    worker = connect()
    execute(worker, TAKE, NAME)
    watcher = watch(JOB, dsn=make_conninfo(dsn, user=nobody, password="of a test"))
    held = held_of(watcher.poll(), worker)
    watcher.close()
    assert (held.evidence, held.at_least) == ("stamp", None)
    assert held.seconds is not None
    assert held.at_most == held.seconds + 1

"""Names that need no configuration, on a real server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from pglock_inspect.config import Settings
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, Limits
from pglock_inspect.names.catalogue import catalogue, key_written
from pglock_inspect.watch import Watcher
from tests.support.clock import Clock
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pglock_inspect.model import Lock, Name
    from tests.support.servers import Connect, Connection

    Watch = Callable[..., Watcher]


@pytest.fixture
def watch(dsn: str) -> Iterator[Watch]:
    """Watches the server that tests share."""
    watchers: list[Watcher] = []

    def watch(settings: Settings | None = None, dsn: str = dsn, clock: Clock | None = None) -> Watcher:
        watchers.append(Watcher(dsn, settings or Settings(), clock=clock or time.monotonic))
        return watchers[-1]

    yield watch
    for watcher in watchers:
        watcher.close()


def names(locks: tuple[Lock, ...]) -> dict[str, Name | None]:
    return {str(lock.key): lock.name for lock in locks}


def texts(watcher: Watcher) -> set[str | None]:
    report = watcher.poll()
    assert report.error is None
    return {lock.name.text if lock.name else None for lock in report.locks}


def test_a_hand_written_lock_is_named_after_its_statement(connect: Connect, watch: Watch) -> None:
    connect().execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    connect().execute("SELECT pg_advisory_lock(hashtextextended('nightly' || ':' || 7, 3))")
    connect().execute("SELECT pg_advisory_lock(hashtext('tenant'), hashtext('42'))")
    connect("cron: rebuild_index").execute("SELECT pg_advisory_lock(hashtext(%s)), now()", ["rebuild_index"])
    assert {lock.name.text: lock.name.source for lock in watch().poll().locks if lock.name} == {
        "send_daily_digest": "query",
        "nightly:7": "query",
        "tenant,'42'": "query",
        "rebuild_index": "application_name",
    }


def test_a_name_stays_when_the_holder_does_something_else(connect: Connect, watch: Watch) -> None:
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    watcher = watch()
    assert texts(watcher) == {"send_daily_digest"}
    holder.execute("SELECT 1")
    assert texts(watcher) == {"send_daily_digest"}


def test_a_waiters_statement_names_what_it_waits_for(
    connect: Connect, janitor: Connection, watch: Watch
) -> None:
    holder, waiter = connect(), connect()
    holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    holder.execute("COMMIT")
    watcher = watch()
    assert texts(watcher) == {None}
    waiter.pgconn.send_query(b"SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    wait_until(lambda: janitor.execute(waiting).fetchone(), "the waiter waits")
    report = watcher.poll()
    assert {(lock.pid, lock.name.text if lock.name else None) for lock in report.locks} == {
        (holder.info.backend_pid, "send_daily_digest"),
        (waiter.info.backend_pid, "send_daily_digest"),
    }


def test_a_pattern_is_a_job(connect: Connect, watch: Watch) -> None:
    connect().execute("SELECT pg_advisory_lock(hashtext('tenant:1')), pg_advisory_lock(7, 9)")
    jobs = (
        Job("tenants", match="tenant:*", limits=Limits(max_held=0)),
        Job("sevens", first=7, limits=Limits(max_held=0)),
    )
    report = watch(Settings(jobs=jobs)).poll()
    assert {(state.job.name, state.held, state.stale) for state in report.jobs} == {
        ("tenants", 1, 1),
        ("sevens", 1, 1),
    }
    assert {lock.max_held for lock in report.locks} == {0}


@pytest.fixture
def job_names(janitor: Connection) -> Iterator[None]:
    janitor.execute(
        "CREATE TABLE job_names AS SELECT 'job ' || n AS name FROM generate_series(1, 20000) AS n"
    )
    yield
    janitor.execute("DROP TABLE IF EXISTS job_names")


@pytest.mark.usefixtures("job_names")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT name FROM job_names",
        "SELECT name, 1 FROM job_names ORDER BY length(name), name;",
        "TABLE job_names",
        "WITH x AS (SELECT name::varchar FROM job_names) SELECT * FROM x",
        "VALUES ('job 3')",
        "SELECT 'job 3'::name -- 100 %s",
        "SELECT CASE n WHEN 1 THEN NULL WHEN 2 THEN '' ELSE 'job 3' END FROM generate_series(1, 3) AS n",
    ],
)
def test_the_users_query_names_keys(connect: Connect, watch: Watch, query: str) -> None:
    session = connect()
    session.execute("SELECT pg_advisory_lock(hashtext(%s::text))", ["job 3"], binary=True)
    session.execute("COMMIT")
    watcher = watch(Settings(names_query=query))
    (name,) = names(watcher.poll().locks).values()
    assert watcher.problem is None
    assert name is not None
    assert (name.text, name.source, name.scheme) == ("job 3", "names_query", "hashtext")


@pytest.mark.usefixtures("job_names")
def test_ten_thousand_names_are_taken_and_no_more(connect: Connect, watch: Watch) -> None:
    connect().execute(
        "SELECT pg_advisory_lock(hashtext('job ' || n)) FROM (VALUES (10000), (10001)) AS jobs (n)"
    )
    watcher = watch(Settings(names_query="SELECT name FROM job_names ORDER BY length(name), name"))
    assert texts(watcher) == {"job 10000", None}


@pytest.mark.usefixtures("job_names")
def test_names_are_asked_for_once_a_minute_and_only_while_a_key_has_none(
    connect: Connect, janitor: Connection, watch: Watch
) -> None:
    clock = Clock()
    janitor.execute("DELETE FROM job_names")
    watcher = watch(Settings(names_query="SELECT name FROM job_names"), clock=clock)
    connect().execute("SELECT pg_advisory_lock(hashtext('job ' || n)) FROM (VALUES (3)) AS jobs (n)")
    assert texts(watcher) == {None}
    janitor.execute("INSERT INTO job_names VALUES ('job 3')")
    clock.now += 59
    assert texts(watcher) == {None}
    clock.now += 1
    assert texts(watcher) == {"job 3"}
    janitor.execute("DROP TABLE job_names")
    clock.now += 60
    assert texts(watcher) == {"job 3"}
    assert watcher.problem is None


@pytest.fixture
def job_numbers(janitor: Connection) -> Iterator[None]:
    janitor.execute("CREATE SEQUENCE job_numbers")
    yield
    janitor.execute("DROP SEQUENCE job_numbers")


@pytest.mark.usefixtures("job_numbers")
@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("SELECT name FROM nowhere", 'relation "nowhere" does not exist; correct it in the configuration'),
        ("DELETE FROM pg_class", 'syntax error at or near "DELETE"; correct it in the configuration'),
        (
            "SELECT 'a'; SELECT 'b'",
            "cannot insert multiple commands into a prepared statement; correct it in the configuration",
        ),
        (
            "SELECT nextval('job_numbers')::text",
            "cannot execute nextval() in a read-only transaction; correct it in the configuration",
        ),
        ("SELECT 'x' FROM pg_sleep(30)", "it takes longer than 2 s; give it less to read"),
        (
            "SELECT '\ud83d\udd12' -- \ud800",
            "it has characters that are not in the encoding of the database; correct it in the configuration",
        ),
    ],
)
def test_a_query_that_fails_is_told_of_and_fails_no_poll(
    connect: Connect, watch: Watch, query: str, problem: str
) -> None:
    connect().execute("SELECT pg_advisory_lock(4711)")
    watcher = watch(Settings(names_query=query))
    report = watcher.poll()
    assert (report.error, len(report.locks)) == (None, 1)
    assert watcher.problem == f"names_query returns no names: {problem}"
    assert watcher.poll().error is None


def test_a_query_that_is_mended_is_no_problem_any_more(
    connect: Connect, janitor: Connection, watch: Watch
) -> None:
    clock = Clock()
    connect().execute("SELECT pg_advisory_lock(4711)")
    watcher = watch(Settings(names_query="SELECT name FROM job_names"), clock=clock)
    watcher.poll()
    assert watcher.problem is not None
    janitor.execute("CREATE TABLE job_names (name text)")
    try:
        clock.now += 60
        watcher.poll()
        assert watcher.problem is None
    finally:
        janitor.execute("DROP TABLE job_names")


EXAMPLES = [
    (software.product, key_written(example.key))
    for software in catalogue()
    for example in software.examples
    if example.database == "appdb" or (example.name, example.database, example.oid) == (None, None, None)
]


def test_every_worked_example_is_shown_under_its_products_name(
    connect: Connect, watch: Watch, dsn_of_appdb: str
) -> None:
    keys = {key for _, key in EXAMPLES if key.form != "extension"}
    session = connect(dbname="appdb")
    for key in keys:
        session.execute(f"SELECT pg_advisory_lock({key.sql_arguments})".encode())
    session.execute("COMMIT")
    watcher = watch(dsn=dsn_of_appdb)
    shown = {lock.key: lock.name for lock in watcher.poll().locks}
    assert shown.keys() == keys
    sure = {key: name.product for key, name in shown.items() if name and not name.maybe}
    assert all((product, key) in EXAMPLES for key, product in sure.items())
    assert len(sure) > 75
    assert shown[AdvisoryKey.from_bigint(42)] is None
    session.execute("CREATE TABLE system_metadata (); CREATE TABLE asset ()")
    (immich,) = [lock.name for lock in watch(dsn=dsn_of_appdb).poll().locks if str(lock.key) == "42"]
    assert immich is not None
    assert (immich.text, immich.maybe, immich.long_lived) == ("Immich backup", True, True)


@pytest.fixture
def dsn_of_appdb(dsn: str, janitor: Connection) -> Iterator[str]:
    janitor.execute("CREATE DATABASE appdb")
    yield f"{dsn} dbname=appdb"
    janitor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'appdb'")
    janitor.execute("DROP DATABASE appdb")

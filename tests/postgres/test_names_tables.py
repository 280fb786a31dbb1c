"""Names of known locks in the catalogs and tables of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest

from pglock_inspect.config import Settings
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Database
from pglock_inspect.names.catalogue import claims, key_written
from pglock_inspect.postgres.connection import connect as connect_to_read
from pglock_inspect.postgres.known_locks import KnownLocks
from pglock_inspect.schemes import key_of
from pglock_inspect.watch import Watcher
from tests.support.clock import Clock
from tests.support.pooler import pgbouncer
from tests.support.sessions import packed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pglock_inspect.model import Name
    from tests.support.servers import Connect, Connection, StartServer

    Find = Callable[..., dict[str, Name]]


class Case(NamedTuple):
    """What a product keeps, and the names of its keys; {oid} is the oid of ``table``."""

    software: str
    setup: str
    names: dict[str, str]
    table: str | None = None
    catalog: bool = False
    maybe: bool = False


TRIGGER = "6f1c2d3e-4a5b-4c6d-8e7f-9a0b1c2d3e4f"
UUID = "0b9f7a64-0e6f-4d5c-9a5b-3a2f4f6b7c11"
CASES = [
    Case(
        "rails-switchman",
        """CREATE TABLE ar_internal_metadata (key text, value text);
           INSERT INTO ar_internal_metadata VALUES ('environment', 'production'),
               ('migrator_advisory_lock_id', '7833116039145617955')""",
        {"7833116039145617955": "Rails migrations of a shard"},
    ),
    Case(
        "good_job",
        f"""CREATE TABLE good_jobs (id uuid, finished_at timestamptz);
            CREATE TABLE good_job_processes (id uuid);
            INSERT INTO good_jobs VALUES ('{UUID}', NULL), (md5('done')::uuid, now());
            INSERT INTO good_job_processes VALUES ('{UUID}')""",
        {
            "2244772959704536853": f"GoodJob job {UUID}",
            str(key_of(f"good_job_processes-{UUID}", "md5-64-be")): f"GoodJob process {UUID}",
        },
    ),
    Case(
        "que",
        "CREATE TABLE que_jobs (id bigint); INSERT INTO que_jobs VALUES (4711), (12)",
        {"4711": "Que job 4711"},
        maybe=True,
    ),
    Case(
        "que-go",
        "CREATE TABLE que_jobs (job_id bigint); INSERT INTO que_jobs VALUES (42)",
        {"42": "Que job 42"},
        maybe=True,
    ),
    Case(
        "message-db",
        """CREATE SCHEMA message_store;
           CREATE TABLE message_store.messages (stream_name text, global_position bigint);
           INSERT INTO message_store.messages VALUES ('account-123', 1), ('account', 2), ('other-1', 3)""",
        {"-2132379389342958165": "Message DB category account"},
    ),
    Case(
        "commanded-eventstore",
        "CREATE TABLE subscriptions (subscription_id bigint, stream_uuid text, subscription_name text)",
        {"{oid},7": "EventStore subscription 7", "{oid},-1": "EventStore migrations"},
        table="subscriptions",
        catalog=True,
    ),
    Case(
        "marten",
        """CREATE TABLE mt_event_progression (name text);
           INSERT INTO mt_event_progression VALUES ('HighWaterMark'), ('Orders:All')""",
        {"2022724991": "Marten projection Orders:All"},
    ),
    Case(
        "zitadel",
        """CREATE SCHEMA eventstore; CREATE TABLE eventstore.events2 (instance_id text);
           INSERT INTO eventstore.events2 VALUES ('1'), ('1'), ('288000000000000001'), ('3')""",
        {"{oid},2965464": "ZITADEL instance 288000000000000001", "{oid},5": "ZITADEL events"},
        table="eventstore.events2",
    ),
    Case(
        "zitadel",
        "CREATE SCHEMA eventstore; CREATE TABLE eventstore.events2 (instance_id text)",
        {"{oid},2965464": "ZITADEL events"},
        table="eventstore.events2",
        catalog=True,
    ),
    Case(
        "prefect",
        """CREATE TABLE automation (trigger json);
           INSERT INTO automation VALUES
               ('{"id": "1", "triggers": [{"id": "TRIGGER"}]}'), ('null'), (NULL)""".replace(
            "TRIGGER", TRIGGER
        ),
        {"1044723011081289295": f"Prefect trigger {TRIGGER}"},
    ),
    Case(
        "electric",
        "SELECT pg_create_physical_replication_slot('electric_slot_eu')",
        {str(key_of("electric_slot_eu")): "Electric slot electric_slot_eu"},
        catalog=True,
    ),
    Case(
        "terraform-pg-backend",
        """CREATE SCHEMA terraform_remote_state;
           CREATE TABLE terraform_remote_state.states (id bigint, name text, data text);
           INSERT INTO terraform_remote_state.states VALUES (1, 'default'), (2, 'staging')""",
        {"1": "Terraform state default", "2": "Terraform state staging"},
        maybe=True,
    ),
    Case(
        "pg_repack",
        "CREATE TABLE events ()",
        {"16185446,{oid - 2^31}": "pg_repack of public.events"},
        table="events",
        catalog=True,
    ),
    Case(
        "pg_partman",
        """CREATE SCHEMA partman; CREATE TABLE partman.part_config (parent_table text);
           INSERT INTO partman.part_config VALUES ('public.other'), ('public.events')""",
        {
            "1734705784,1726799227": "pg_partman partition_data_proc of public.events",
            "2070001301,1726799227": "pg_partman undo_partition_proc of public.events",
        },
    ),
    Case(
        "pgmq",
        """CREATE SCHEMA pgmq; CREATE TABLE pgmq.meta (queue_name text);
           INSERT INTO pgmq.meta VALUES ('orders')""",
        {"20675298": "pgmq queue orders"},
    ),
    Case(
        "pgai",
        "CREATE TABLE documents ()",
        {"1982010642,{oid}": "pgai index of public.documents"},
        table="documents",
        catalog=True,
    ),
    Case(
        "timescaledb",
        """CREATE SCHEMA _timescaledb_config;
           CREATE TABLE _timescaledb_config.bgw_job (id int, application_name name);
           INSERT INTO _timescaledb_config.bgw_job VALUES (1000, 'Columnstore Policy [1000]')""",
        {"1000/0/29749": "TimescaleDB Columnstore Policy [1000]"},
    ),
    Case(
        "pg_dbms_lock",
        """CREATE SCHEMA dbms_lock; CREATE TABLE dbms_lock.dbms_lock_allocated (name text, lockid int);
           INSERT INTO dbms_lock.dbms_lock_allocated VALUES ('printer', 1073741824)""",
        {"1073741824": "DBMS_LOCK printer"},
    ),
]


def test_every_product_that_needs_a_table_has_a_case() -> None:
    assert {case.software for case in CASES} == {c.software.id for c in claims() if c.finds_names}


@pytest.fixture
def owner(connect: Connect, database: str) -> Iterator[Connection]:
    """A session in a new database."""
    session = connect(dbname=database)
    yield session
    session.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name ^@ 'electric_'"
    )


@pytest.fixture
def find(dsn: str, owner: Connection) -> Iterator[Find]:
    """Finds names for keys in the new database."""
    database = owner.execute(
        "SELECT oid, datname FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    assert database is not None
    readers = []

    def find(*keys: str, read_tables: bool = True, dsn: str = dsn) -> dict[str, Name]:
        here = Database(*database)
        readers.append(connect_to_read(f"{dsn} dbname={here.name}"))
        known = KnownLocks(readers[-1], read_tables=read_tables, clock=lambda: 0.0)
        traces = known.traces(here)
        assert traces is not None
        asked: dict[int, set[int]] = {}
        for written in keys:
            key = key_written(written)
            asked.setdefault(key.objsubid, set()).add(packed(key))
        found = known.names(asked, here, traces)
        return {
            str(AdvisoryKey(key >> 32, key & 0xFFFFFFFF, form)): name
            for form, names in found.items()
            for key, name in names.items()
        }

    yield find
    for reader in readers:
        reader.close()


def keys_of(case: Case, owner: Connection) -> dict[str, str]:
    (oid,) = owner.execute("SELECT to_regclass(%s)::oid::bigint", [case.table]).fetchone() or (None,)
    oid = oid or 0
    return {
        key.replace("{oid}", str(oid)).replace("{oid - 2^31}", str(oid - (1 << 31))): name
        for key, name in case.names.items()
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.software)
def test_a_held_key_is_looked_up(owner: Connection, find: Find, case: Case) -> None:
    owner.execute(case.setup.encode())
    expected = keys_of(case, owner)
    found = find(*expected, "7", "7,7", "7/7/7", read_tables=not case.catalog)
    assert {key: name.text for key, name in found.items()} == expected
    assert {name.maybe for name in found.values()} == {case.maybe}
    products = {c.software.product for c in claims() if c.software.id == case.software}
    assert {name.product for name in found.values()} == products


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not case.catalog and case.software != "zitadel"],
    ids=lambda c: c.software,
)
def test_no_table_is_read_unless_it_is_allowed(owner: Connection, find: Find, case: Case) -> None:
    owner.execute(case.setup.encode())
    assert find(*keys_of(case, owner), read_tables=False) == {}


QUE = "CREATE TABLE que_jobs (id bigint); INSERT INTO que_jobs VALUES (1), (2)"


def test_tables_of_one_name_in_several_schemas_are_all_read(owner: Connection, find: Find) -> None:
    owner.execute(
        """CREATE TABLE que_jobs (id bigint);
           CREATE SCHEMA "a""%b"; CREATE TABLE "a""%b".que_jobs (id bigint);
           INSERT INTO "a""%b".que_jobs VALUES (1); INSERT INTO que_jobs VALUES (2)"""
    )
    assert find("1", "2", "3").keys() == {"1", "2"}


@pytest.mark.parametrize(
    "instead",
    [
        "CREATE VIEW que_jobs AS SELECT 1::bigint AS id",
        "CREATE TABLE que_jobs (id bigint, other text) PARTITION BY RANGE (id)",
        "CREATE TABLE que_jobs (number bigint)",
        "CREATE TABLE que_jobs (id text)",
        "CREATE TABLE jobs (id bigint)",
    ],
)
def test_what_is_not_the_products_table_names_nothing(owner: Connection, find: Find, instead: str) -> None:
    owner.execute(instead.encode())
    assert find("1") == {}


@pytest.fixture
def reader(owner: Connection) -> Iterator[str]:
    """A role that may do nothing."""
    owner.execute("CREATE ROLE pglock_reader LOGIN PASSWORD 'secret'")
    yield "pglock_reader"
    owner.execute("DROP OWNED BY pglock_reader; DROP ROLE pglock_reader")


def test_a_table_that_we_may_not_read_names_nothing(
    owner: Connection, find: Find, dsn: str, reader: str
) -> None:
    owner.execute(QUE)
    as_reader = f"{dsn} user={reader} password=secret"
    assert find("1", dsn=as_reader) == {}
    owner.execute(f"GRANT SELECT ON que_jobs TO {reader}".encode())
    assert find("1", dsn=as_reader).keys() == {"1"}
    owner.execute(
        """CREATE FUNCTION spy() RETURNS bool LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''run''; END';
           ALTER TABLE que_jobs ENABLE ROW LEVEL SECURITY;
           CREATE POLICY spy ON que_jobs USING (spy())"""
    )
    assert find("1", dsn=as_reader) == {}


def test_functions_of_the_databases_users_are_not_run(owner: Connection, find: Find) -> None:
    owner.execute(
        """CREATE SCHEMA pgmq; CREATE TABLE pgmq.meta (queue_name varchar);
           INSERT INTO pgmq.meta VALUES ('orders');
           CREATE FUNCTION hashtext(varchar) RETURNS int LANGUAGE plpgsql
               AS 'BEGIN RAISE EXCEPTION ''run''; END';
           CREATE FUNCTION concatenated(text, varchar) RETURNS text LANGUAGE plpgsql
               AS 'BEGIN RAISE EXCEPTION ''run''; END';
           CREATE OPERATOR || (LEFTARG = text, RIGHTARG = varchar, FUNCTION = concatenated);
           ALTER DATABASE pglock_test SET search_path = public, pg_catalog"""
    )
    assert find("20675298").keys() == {"20675298"}


def test_a_look_up_leaves_the_session_as_it_was(dsn: str) -> None:
    settings = "SELECT name, setting FROM pg_settings WHERE name ~ 'search_path|timeout|row_sec|read_only'"
    with connect_to_read(dsn) as connection:
        before = connection.execute(settings.encode()).fetchall()
        KnownLocks(connection, read_tables=True, clock=lambda: 0.0).traces(Database(1, "x"))
        assert connection.execute(settings.encode()).fetchall() == before


def test_a_look_up_that_fails_is_not_tried_again(owner: Connection, dsn: str) -> None:
    owner.execute("CREATE TABLE que_jobs (id text)")
    here = Database(1, "pglock_test")
    with connect_to_read(f"{dsn} dbname=pglock_test") as connection:
        known = KnownLocks(connection, read_tables=True, clock=lambda: 0.0)
        traces = known.traces(here)
        assert traces is not None
        known.names({1: {1}}, here, traces)
        owner.execute("DROP TABLE que_jobs")
        owner.execute(QUE)
        assert known.names({1: {1}}, here, traces) == {}
        traces = known.traces(here)
        assert traces is not None
        assert [*known.names({1: {1}}, here, traces)[1]] == [1]


def texts(watcher: Watcher) -> set[str | None]:
    report = watcher.poll()
    assert report.error is None
    return {lock.name.text if lock.name else None for lock in report.locks}


def test_a_watcher_looks_up_what_is_held_and_what_is_new(owner: Connection, dsn: str) -> None:
    owner.execute(QUE)
    owner.execute("SELECT pg_advisory_lock(1), pg_advisory_lock(3)")
    clock = Clock()
    with Watcher(f"{dsn} dbname=pglock_test", Settings(read_tables=True), clock=clock) as watcher:
        assert texts(watcher) == {"Que job 1", None}
        owner.execute("SELECT pg_advisory_lock(2)")
        assert texts(watcher) == {"Que job 1", None}
        clock.now += 5
        assert texts(watcher) == {"Que job 1", "Que job 2", None}
        owner.execute("INSERT INTO que_jobs VALUES (3)")
        clock.now += 60
        assert texts(watcher) == {"Que job 1", "Que job 2", "Que job 3"}


def test_a_watcher_reads_no_table_by_default(owner: Connection, dsn: str) -> None:
    owner.execute(QUE)
    owner.execute("SELECT pg_advisory_lock(1)")
    with Watcher(f"{dsn} dbname=pglock_test", Settings()) as watcher:
        assert texts(watcher) == {None}


def test_a_table_that_is_locked_holds_no_poll_up(owner: Connection, connect: Connect, dsn: str) -> None:
    owner.execute(QUE)
    owner.execute("SELECT pg_advisory_lock(1)")
    blocker = connect(dbname="pglock_test", autocommit=False)
    blocker.execute("LOCK TABLE que_jobs")
    clock = Clock()
    with Watcher(f"{dsn} dbname=pglock_test", Settings(read_tables=True), clock=clock) as watcher:
        assert texts(watcher) == {None}
        blocker.rollback()
        clock.now += 60
        assert texts(watcher) == {"Que job 1"}


def test_a_full_lock_table_fails_no_poll_that_looks_up(start_server: StartServer) -> None:
    server = start_server({"max_locks_per_transaction": 10, "max_connections": 10})
    clock = Clock()
    settings = Settings(read_tables=True, names_query="SELECT relname FROM pg_class")
    with (
        Watcher(server.dsn(), settings, clock=clock) as watcher,
        psycopg.connect(server.dsn(), autocommit=True) as holder,
    ):
        assert texts(watcher) == set()
        holder.execute(QUE)
        fill = "SELECT pg_advisory_lock(key::bigint) FROM generate_series(1, 10000) AS key"
        with pytest.raises(psycopg.errors.OutOfMemory):
            holder.execute(fill)
        assert texts(watcher) == {None}
        assert watcher.problem is not None
        assert watcher.problem.endswith("out of shared memory; it is asked again in a minute")
        holder.execute("SELECT pg_advisory_unlock(key::bigint) FROM generate_series(3, 10000) AS key")
        clock.now += 600
        assert texts(watcher) == {"Que job 1", "Que job 2"}
        assert watcher.problem is None


@pytest.mark.requires("pgbouncer")
def test_look_ups_work_through_a_pooler_and_leave_nothing_behind(owner: Connection, dsn: str) -> None:
    owner.execute(QUE)
    owner.execute("CREATE TABLE job_names AS SELECT 'nightly' AS name")
    owner.execute("SELECT pg_advisory_lock(1), pg_advisory_lock(hashtext(name)) FROM job_names")
    state = "SELECT name, setting FROM pg_settings WHERE name ~ 'search_path|timeout|row_sec|read_only'"
    with pgbouncer(f"{dsn} dbname=pglock_test", "transaction") as through:
        with psycopg.connect(through) as client:
            before = client.execute(state).fetchall()
        settings = Settings(read_tables=True, names_query="SELECT name FROM job_names")
        with Watcher(through, settings) as watcher:
            assert texts(watcher) == {"Que job 1", "nightly"}
            assert watcher.problem is None
        with psycopg.connect(through) as client:
            assert client.execute(state).fetchall() == before
            assert client.execute("SELECT count(*) FROM pg_prepared_statements").fetchone() == (0,)

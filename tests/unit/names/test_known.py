from __future__ import annotations

import random
import time

import pytest

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Database, LockRows, Name, Session
from pglock_inspect.names import KnownNames, Learner
from pglock_inspect.names.traces import Relation, Traces
from pglock_inspect.schemes import key_of
from tests.support.known_software import APP, known, traces
from tests.support.sessions import key, packed

PRISMA = Name("Prisma migrations", "known", product="Prisma Migrate", scope="session")


def test_a_number_that_nobody_else_picks_names_its_product() -> None:
    assert known(key(72707369)) == PRISMA
    assert known(key((0, 72707369))) is None


def test_a_key_made_of_the_databases_name_counts_in_that_database_only() -> None:
    rails = key(8804996339578292175)
    assert known(rails, Database(5, "appdb")) == Name(
        "Rails migrations", "known", scheme="crc32-unsigned", product="Ruby on Rails", scope="session"
    )
    assert known(rails, Database(5, "another")) is None


AIRFLOW = ("table dag_run", "table task_instance")


def test_a_number_that_anybody_picks_is_named_only_where_all_evidence_is() -> None:
    assert known(key(2)) is None
    assert known(key(2), traces=traces(AIRFLOW[0])) is None
    assert known(key(2), application_name="worker") is None
    guess = Name("Airflow scheduler's critical section", "known", product="Apache Airflow", maybe=True)
    assert known(key(2), traces=traces(*AIRFLOW)) == guess
    assert known(key(2), application_name="airflow-scheduler") == guess
    assert known(key(2), Database(6, "other"), traces(*AIRFLOW)) is None


def test_one_of_several_traces_may_do() -> None:
    for table in ("table asset", "table assets"):
        assert known(key(600), traces=traces("table system_metadata", table)) is not None
    assert known(key(600), traces=traces("table asset")) is None


def test_evidence_makes_a_guess_sure() -> None:
    assert known(key(4444)) == Name("Marten daemon", "known", product="Marten", maybe=True)
    sure = known(key(4444), traces=traces("table mt_events", "table mt_event_progression"))
    assert sure == Name("Marten daemon", "known", product="Marten", long_lived=True)


def test_long_lived_needs_evidence_and_scope_needs_certainty() -> None:
    immich = known(key(42), application_name="immich-server")
    assert immich == Name("Immich backup", "known", product="Immich", maybe=True, long_lived=True)
    others = known(key(69), application_name="immich-server")
    assert others == Name("Immich configuration", "known", product="Immich", maybe=True)


def test_several_products_that_may_have_taken_a_key_are_all_named() -> None:
    both = known(key(2), traces=traces(*AIRFLOW, "table relation_tuple_transaction"))
    assert both == Name(
        "Airflow scheduler's critical section or SpiceDB revision heartbeat",
        "known",
        product="Apache Airflow or SpiceDB",
        maybe=True,
    )


@pytest.mark.parametrize(
    ("its_key", "present", "text", "maybe"),
    [
        (4004004031, None, "golang-migrate migrations or Grafana migrations", True),
        (4004004031, ("table migration_log",), "Grafana migrations", False),
        (4004004031, ("table schema_migrations(version, dirty)",), "golang-migrate migrations", False),
        (4004004031, ("table x",), "golang-migrate migrations or Grafana migrations", True),
        (
            -8525285245963000605,
            None,
            "postgres-migrations or Supabase Storage tenant migrations",
            True,
        ),
        (-8525285245963000605, ("schema storage",), "Supabase Storage tenant migrations", False),
        (-8525285245963000605, ("table x",), "postgres-migrations", False),
        ("0/3/10", None, "Citus cleanup of operation 3 or pg_auto_failover formation", True),
        ("0/3/10", ("extension citus",), "Citus cleanup of operation 3", False),
        ("0/3/10", ("extension pgautofailover",), "pg_auto_failover formation", False),
    ],
)
def test_traces_tell_products_with_one_key_apart(
    its_key: int | str, present: tuple[str, ...] | None, text: str, *, maybe: bool
) -> None:
    name = known(key(its_key), Database(5, "grafana"), None if present is None else traces(*present))
    assert name is not None
    assert (name.text, name.maybe) == (text, maybe)


@pytest.mark.parametrize(
    ("its_key", "recognised"),
    [
        (77429560795512, False),
        (77429560795513, True),
        (77433855762808, True),
        (77433855762809, False),
    ],
)
def test_flyway_is_known_by_a_range_of_keys(its_key: int, *, recognised: bool) -> None:
    name = known(key(its_key))
    assert (name == Name("Flyway migrations", "known", product="Flyway")) is recognised


@pytest.mark.parametrize(
    ("its_key", "text"),
    [
        ((16185446, 24576 - (1 << 31)), "pg_repack of table 24576"),
        ((1982010642, 24576), "pgai index of table 24576"),
        ((12378, 5), "Promscale maintenance of metric 5"),
        ((1285144674, 7), "Sourcegraph codeintel 7"),
        ("0/102008/5", "Citus shard 102008"),
        ("1/2/5", "Citus shard 4294967298"),
        ("0/4/9", "Citus background task monitor"),
        ("0/5/9", "Citus operation"),
        ("1000/0/29749", "TimescaleDB job 1000"),
    ],
)
def test_what_a_key_says_is_decoded(its_key: tuple[int, int] | str, text: str) -> None:
    name = known(key(its_key))
    assert name is not None
    assert name.text == text


@pytest.mark.parametrize("objsubid", [3, 17, 29748, 65535])
def test_a_class_of_no_known_extension_has_no_name(objsubid: int) -> None:
    assert known(AdvisoryKey(0, 1, objsubid)) is None


def test_schemas_are_found_by_the_tables_in_them() -> None:
    there = Traces(5, {"table wolverine_nodes": (Relation("billing", "wolverine_nodes", 1, readable=False),)})
    leader = key_of("billing", "jasperfx-hash")
    assert known(leader) is None
    name = known(leader, traces=there)
    assert name == Name(
        "Wolverine leadership",
        "known",
        scheme="jasperfx-hash",
        product="Wolverine",
        scope="session",
        long_lived=True,
    )


def test_a_name_that_is_packed_into_the_key_is_a_guess() -> None:
    assert known(key_of("jobs", "dotnet-ascii")) == Name(
        "jobs", "known", scheme="dotnet-ascii", product="DistributedLock (.NET)", maybe=True
    )
    assert known(key_of("a b/c.d-1", "dotnet-ascii")) is not None
    assert known(key_of("12", "dotnet-ascii")) is None  # as likely a number


def test_random_pairs_are_rarely_taken_for_names_and_small_ones_never() -> None:
    chance = random.Random(1)
    pairs = [AdvisoryKey(chance.getrandbits(32), chance.getrandbits(32), 2) for _ in range(3_000)]
    assert sum(known(pair) is not None for pair in pairs) < 15
    assert not any(known(AdvisoryKey(a, b, 2)) for a in (20, 65_536, 1_000_000) for b in range(256))


def rows_of(keys: frozenset[int], objsubid: int) -> LockRows:
    return LockRows(1, "1/1", APP.oid, objsubid, "ExclusiveLock", granted=True, keys=keys)


@pytest.mark.parametrize(("number", "texts"), [(1_000, 1_000), (1_001, 1)])
def test_very_many_keys_of_one_kind_share_a_name(number: int, texts: int) -> None:
    keys = frozenset(range(number))
    names = KnownNames().lookup(keys, rows_of(keys, 5), APP, None)
    assert len(names) == number
    assert len({name.text for name in names.values()}) == texts
    if texts == 1:
        assert len({id(name) for name in names.values()}) == 1
        assert names[0].text == "Citus shard"


def test_what_a_table_said_comes_before_what_the_key_says() -> None:
    repack = key((16185446, 24576 - (1 << 31)))
    found = Name("pg_repack of public.events", "known", product="pg_repack")
    keys = frozenset([packed(repack)])
    names = KnownNames(rows={(APP.oid, 2): {packed(repack): found}}).lookup(keys, rows_of(keys, 2), APP, None)
    assert names == {packed(repack): found}
    other = Database(6, "other")
    elsewhere = LockRows(1, "1/1", other.oid, 2, "ExclusiveLock", granted=True, keys=keys)
    names = KnownNames(rows={(APP.oid, 2): {packed(repack): found}}).lookup(keys, elsewhere, other, None)
    assert names[packed(repack)].text == "pg_repack of table 24576"


def test_candidates_are_all_whose_key_it_may_be() -> None:
    ones = KnownNames().candidates(key(1))
    assert [name.product for name in ones] == ["Apache Airflow", "Mage", "SpiceDB", "Coder", "graph-node"]
    assert all(name.maybe and not name.long_lived and name.scope is None for name in ones)
    assert KnownNames().candidates(key(72707369)) == (PRISMA,)
    assert [name.text for name in KnownNames().candidates(key((2, 17)))] == [
        "Concourse component",
        "graph-node write of deployment 17",
    ]
    (rails,) = KnownNames().candidates(key(8804996339578292175), Database(5, "appdb"))
    assert rails.text == "Rails migrations"
    assert KnownNames().candidates(key(123456789)) == ()


@pytest.mark.parametrize("objsubid", [1, 2, 5])
def test_a_hundred_thousand_keys_are_looked_up_together(objsubid: int) -> None:
    chance = random.Random(2)
    keys = frozenset(chance.getrandbits(64) for _ in range(100_000))
    rows, book = rows_of(keys, objsubid), Learner().book
    book.resolve(frozenset([1]), rows, APP, None)  # reads the data file

    def seconds() -> float:
        began = time.process_time()
        book.resolve(keys, rows, APP, Session(1))
        return time.process_time() - began

    assert min(seconds() for _ in range(5)) < 0.2  # 12, 25 and 45 ms on an idle machine

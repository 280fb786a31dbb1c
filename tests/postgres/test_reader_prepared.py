"""Locks of prepared transactions, which no process holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pglock_inspect.model import seconds_between
from tests.support.snapshots import key, keys_of, read_once, rows_of

if TYPE_CHECKING:
    from pglock_inspect.model import Prepared, Snapshot
    from tests.support.servers import Connect, StartServer

EXCLUSIVE, SHARE = "ExclusiveLock", "ShareLock"


def prepare(dsn: str, gid: str, *statements: str) -> None:
    """Prepare a transaction and leave its session."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("BEGIN")
        for statement in statements:
            connection.execute(statement.encode())
        connection.execute(f"PREPARE TRANSACTION '{gid}'".encode())


def holders_of(snapshot: Snapshot) -> dict[str, set[object]]:
    """The keys that prepared transactions hold, by gid."""
    return {
        prepared.gid: {
            rows.key(packed).value
            for rows in rows_of(snapshot, None)
            if rows.virtual_transaction == virtual_transaction
            for packed in rows.keys
        }
        for virtual_transaction, prepared in snapshot.prepared.items()
    }


def only(snapshot: Snapshot) -> Prepared:
    (prepared,) = snapshot.prepared.values()
    return prepared


def test_it_is_known_by_its_gid(connect: Connect, dsn: str) -> None:
    prepare(
        dsn, "payout-8131", "SELECT pg_advisory_xact_lock(1)", "SELECT pg_advisory_xact_lock_shared(2, 3)"
    )
    snapshot = read_once(dsn)
    assert keys_of(snapshot, None) == {(key(1), EXCLUSIVE), (key((2, 3)), SHARE)}
    prepared = only(snapshot)
    assert (prepared.gid, prepared.owner, prepared.database) == ("payout-8131", "postgres", "postgres")
    assert 0 <= seconds_between(prepared.prepared_at, snapshot.taken_at) < 60
    connect().execute("COMMIT PREPARED 'payout-8131'")
    assert keys_of(read_once(dsn), None) == set()
    assert read_once(dsn).prepared == {}


def test_each_is_told_from_the_others_of_one_session(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for number in range(3):
            connection.execute("BEGIN")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", [number])
            connection.execute(f"PREPARE TRANSACTION 'number {number}'".encode())
    assert holders_of(read_once(dsn)) == {f"number {number}": {number} for number in range(3)}


def test_one_with_subtransactions_of_its_own_is_one(database: str, dsn: str) -> None:
    prepare(
        make_conninfo(dsn, dbname=database),
        "nested",
        "CREATE TABLE written (i int)",
        "INSERT INTO written VALUES (1)",
        "SAVEPOINT one",
        "INSERT INTO written VALUES (2)",
        "SELECT pg_advisory_xact_lock(1)",
        "SAVEPOINT two",
        "INSERT INTO written VALUES (3)",
    )
    snapshot = read_once(dsn)
    assert holders_of(snapshot) == {"nested": {1}}
    assert only(snapshot).database == database


def test_it_outlives_the_server_in_every_way_that_a_server_ends(start_server: StartServer) -> None:
    """Before a restart its virtual transaction is the session's, after it one of its own."""
    server = start_server()
    prepare(server.dsn(), "first", "SELECT pg_advisory_xact_lock(1)")
    prepare(server.dsn(), "second", "SELECT pg_advisory_xact_lock(2)")
    before = read_once(server.dsn())
    server.restart()
    after = read_once(server.dsn())
    server.kill()
    server.start()
    crashed = read_once(server.dsn())
    expected = {"first": {1}, "second": {2}}
    assert [holders_of(snapshot) for snapshot in (before, after, crashed)] == [expected] * 3
    times = [
        {prepared.gid: prepared.prepared_at for prepared in snapshot.prepared.values()}
        for snapshot in (before, after, crashed)
    ]
    assert times[0] == times[1] == times[2]
    assert not after.prepared.keys() & before.prepared.keys()
    # A new one, beside those that were recovered.
    prepare(server.dsn(), "third", "SELECT pg_advisory_xact_lock(3)")
    assert holders_of(read_once(server.dsn())) == {**expected, "third": {3}}


def test_its_gid_may_be_any_text(connect: Connect, dsn: str) -> None:
    gid = "it's \\ «ünïcode» \x1b[31m"
    connection = connect()
    connection.execute("BEGIN")
    connection.execute("SELECT pg_advisory_xact_lock(1)")
    connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(gid))
    assert only(read_once(dsn)).gid == gid


def test_where_none_can_be_prepared_nobody_is_asked(start_server: StartServer) -> None:
    server = start_server({"max_prepared_transactions": 0})
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        snapshot = read_once(server.dsn())
        assert snapshot.prepared == {}
        assert keys_of(snapshot, connection) == {(key(1), EXCLUSIVE)}

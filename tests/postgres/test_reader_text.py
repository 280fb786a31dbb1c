"""Text of other sessions: in their databases' encodings, in none, or larger than anybody needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pglock_inspect.postgres import Reader
from tests.support.snapshots import begin_waiting, key, keys_of, read_once
from tests.support.waiting import wait_until
from tests.support.watching import begin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.model import Session
    from tests.support.servers import Connect, Connection, StartServer

HOSTILE = "\x1b[2J\x1b]0;owned\x07 [red]markup[/] \u202etxt.exe\u202c\r\nsecond line\t| = <b>'\"\\"


def session_of(dsn: str, connection: Connection) -> Session:
    return read_once(dsn).sessions[connection.info.backend_pid]


@pytest.fixture
def latin1(janitor: Connection) -> Iterator[str]:
    yield from _database(janitor, "LATIN1")


@pytest.fixture
def raw(janitor: Connection) -> Iterator[str]:
    """A database that takes any byte."""
    yield from _database(janitor, "SQL_ASCII")


def _database(janitor: Connection, encoding: str) -> Iterator[str]:
    name = f"pglock_{encoding.lower()}"
    options = f"ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    janitor.execute(f"CREATE DATABASE {name} {options}".encode())
    yield name
    _empty(janitor, name)
    janitor.execute(f"DROP DATABASE {name}".encode())


def _empty(janitor: Connection, database: str) -> None:
    """End the sessions in a database."""
    among = "FROM pg_stat_activity WHERE datname = %s"
    janitor.execute(f"SELECT pg_terminate_backend(pid) {among}".encode(), [database])
    wait_until(lambda: not janitor.execute(f"SELECT {among}".encode(), [database]).fetchone(), "they ended")


def test_text_is_passed_on_as_it_was_sent(connect: Connect, dsn: str) -> None:
    worker = connect()
    statement = f"SELECT pg_advisory_lock(1) /* {HOSTILE} «日本語» */"
    worker.execute(statement.encode())
    assert session_of(dsn, worker).query == statement


def test_an_application_name_is_what_the_server_makes_of_it(connect: Connect, dsn: str) -> None:
    """Servers before 15 replace what is not ASCII by question marks, newer ones escape it."""
    worker = connect()
    worker.execute("SELECT set_config('application_name', %s, false)", ["wörker\x1b[31m"])
    shown = worker.execute("SHOW application_name").fetchone()
    assert shown is not None
    assert session_of(dsn, worker).application_name == shown[0]
    assert shown[0].isascii()


def test_text_of_a_latin1_database_is_read_as_such_from_another(
    connect: Connect, dsn: str, latin1: str
) -> None:
    worker = connect(dbname=latin1, client_encoding="LATIN1")
    worker.execute("SELECT pg_advisory_lock(hashtext('für dich')) -- «ça va?»")
    assert session_of(dsn, worker).query == "SELECT pg_advisory_lock(hashtext('für dich')) -- «ça va?»"


def test_text_of_a_utf8_database_is_read_as_such_from_a_latin1_one(
    connect: Connect, dsn: str, latin1: str
) -> None:
    worker = connect()
    worker.execute("SELECT '日本語'")
    from_there = make_conninfo(dsn, dbname=latin1)
    assert session_of(from_there, worker).query == "SELECT '日本語'"


def test_bytes_that_are_no_text_show_as_escapes(connect: Connect, dsn: str, raw: str) -> None:
    worker = connect(dbname=raw, client_encoding="SQL_ASCII")
    worker.pgconn.exec_(b"SELECT pg_advisory_lock(1) /* \xff\xfe caf\xe9 \xe2\x82 */")
    assert session_of(dsn, worker).query == (r"SELECT pg_advisory_lock(1) /* \xff\xfe caf\xe9 \xe2\x82 */")


@pytest.mark.parametrize("dbname", ["latin1", "raw"])
def test_a_reader_may_itself_be_in_any_database(
    connect: Connect, dsn: str, dbname: str, request: pytest.FixtureRequest
) -> None:
    name = request.getfixturevalue(dbname)
    worker = connect(dbname=name)
    worker.execute("SELECT pg_advisory_lock(-1)")
    with Reader(make_conninfo(dsn, dbname=name)) as reader:
        snapshot = reader.read()
    assert snapshot.server.database == name
    assert keys_of(snapshot, worker) == {(key(-1), "ExclusiveLock")}


def test_names_of_databases_and_roles_may_be_any_text(
    janitor: Connection, connect: Connect, dsn: str
) -> None:
    name = 'ünï "x" \' \\ \x1b[31m'
    quoted = '"' + name.replace('"', '""') + '"'
    janitor.execute(f"CREATE ROLE {quoted} LOGIN SUPERUSER".encode())
    janitor.execute(f"CREATE DATABASE {quoted}".encode())
    try:
        worker = connect(dbname=name, user=name)
        worker.execute("SELECT pg_advisory_lock(1)")
        session = session_of(dsn, worker)
        assert (session.database, session.user) == (name, name)
    finally:
        _empty(janitor, name)
        janitor.execute(f"DROP DATABASE {quoted}".encode())
        janitor.execute(f"DROP ROLE {quoted}".encode())


def test_a_statement_of_a_megabyte_is_cut_by_the_server(connect: Connect, dsn: str) -> None:
    worker = connect()
    worker.execute(f"SELECT pg_advisory_lock(1) /* {'é' * 500_000} */".encode())
    query = session_of(dsn, worker).query
    assert query is not None
    assert query.startswith("SELECT pg_advisory_lock(1) /* éé")
    assert len(query.encode()) < 1024
    assert query.isprintable()


@pytest.mark.postgres(13)  # before, a server kept 100 kB at most
def test_a_statement_of_a_megabyte_is_read_whole_where_the_server_keeps_it(start_server: StartServer) -> None:
    server = start_server({"track_activity_query_size": "1MB"})
    statement = f"SELECT pg_advisory_lock(1) /* {'é' * 500_000} */"
    with (
        psycopg.connect(server.dsn(), autocommit=True) as worker,
        Reader(server.dsn()) as reader,
    ):
        worker.execute(statement.encode())
        for _ in range(2):
            assert reader.read().sessions[worker.info.backend_pid].query == statement


def test_no_statement_yet_is_an_empty_one(connect: Connect, dsn: str) -> None:
    assert session_of(dsn, connect()).query == ""


def test_clients_are_told_by_address_and_port(connect: Connect, dsn: str) -> None:
    worker = connect()
    port = worker.execute("SELECT inet_client_port()").fetchone()
    address = worker.execute("SELECT host(inet_client_addr())").fetchone()
    assert port is not None
    assert address is not None
    assert session_of(dsn, worker).client == f"{address[0]}:{port[0]}"


def test_clients_on_a_socket_are_local(start_server: StartServer) -> None:
    server = start_server(tcp=False)
    with psycopg.connect(server.dsn(), autocommit=True) as worker, Reader(server.dsn()) as reader:
        assert reader.target == str(server.directory)
        assert reader.read().sessions[worker.info.backend_pid].client == "local"


def test_a_wait_event_names_its_type(connect: Connect, janitor: Connection, dsn: str) -> None:
    idle, asleep, holder, waiter = connect(), connect(), connect(), connect()
    holder.execute("SELECT pg_advisory_lock(1)")
    begin(asleep, "SELECT pg_sleep(60)")
    begin_waiting(waiter, "SELECT pg_advisory_lock(1)", janitor)
    sessions = read_once(dsn).sessions
    assert [sessions[each.info.backend_pid].wait_event for each in (idle, asleep, waiter)] == [
        "Client/ClientRead",
        "Timeout/PgSleep",
        "Lock/advisory",
    ]

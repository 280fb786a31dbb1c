"""The reader's own session: what it is, what it costs others, and what is said when it cannot be had."""

from __future__ import annotations

import re
import socket
import threading
import time
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from pglock_inspect.errors import BadConnectionString, ServerFailure
from pglock_inspect.postgres import Reader, connection
from tests.support.proxy import Proxy
from tests.support.snapshots import key, keys_of, sleep_before_activity
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.errors import FailureReason
    from tests.support.servers import Connect, Connection, Server, StartServer

READERS = "FROM pg_stat_activity WHERE application_name = 'pglock-inspect'"


@pytest.fixture
def reader(dsn: str) -> Iterator[Reader]:
    with Reader(dsn) as reader:
        yield reader


def shown(reader: Reader, setting: str) -> str:
    row = reader.connection.execute("SELECT current_setting(%s)", [setting]).fetchone()
    assert row is not None
    return bytes(row[0]).decode()


def failure(dsn: str) -> ServerFailure:
    with pytest.raises(ServerFailure) as raised:
        Reader(dsn).read()
    return raised.value


def is_one_sentence(error: Exception) -> bool:
    return re.fullmatch(r"[^\n\x00-\x1f]+; [^\n\x00-\x1f]+[^.\n]", str(error)) is not None


def test_one_session_and_none_afterwards(dsn: str, janitor: Connection) -> None:
    with Reader(dsn) as reader:
        for _ in range(3):
            reader.read()
        assert janitor.execute(f"SELECT count(*) {READERS}".encode()).fetchone() == (1,)
    gone = f"SELECT {READERS}".encode()
    wait_until(lambda: janitor.execute(gone).fetchone() is None, "the reader's session ended")


def test_between_polls_it_is_idle_and_in_no_transaction(reader: Reader, janitor: Connection) -> None:
    """Even on a server without anything to read: in a transaction it would hold back VACUUM."""
    reader.read()
    query = "SELECT state, backend_xmin, backend_xid, xact_start FROM pg_stat_activity WHERE pid = %s"
    own = janitor.execute(query, [reader.connection.info.backend_pid])
    assert own.fetchone() == ("idle", None, None, None)
    locks = janitor.execute("SELECT FROM pg_locks WHERE pid = %s", [reader.connection.info.backend_pid])
    assert locks.fetchone() is None


def test_each_poll_sees_what_happened_since_the_last(connect: Connect, reader: Reader) -> None:
    worker = connect()
    seen = []
    for number in range(3):
        worker.execute("SELECT pg_advisory_lock(%s)", [number])
        snapshot = reader.read()
        seen.append((keys_of(snapshot, worker), snapshot.sessions[worker.info.backend_pid].state_change))
    assert [len(keys) for keys, _ in seen] == [1, 2, 3]
    assert len({state_change for _, state_change in seen}) == 3


def test_it_cannot_write(reader: Reader) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        reader.connection.execute("CREATE TABLE written ()")


def test_it_never_waits_long_and_never_outlives_a_dead_client_by_much(dsn: str) -> None:
    with Reader(dsn, statement_timeout=7.5) as reader:
        reader.read()
        assert shown(reader, "statement_timeout") == "7500ms"
        assert shown(reader, "lock_timeout") == "1s"
        tcp = {
            name: int(re.sub(r"\D", "", shown(reader, f"tcp_{name}")))
            for name in ("keepalives_idle", "keepalives_interval", "keepalives_count", "user_timeout")
        }
    if reader.target.startswith("/"):
        return  # a socket of the same machine has no such settings
    assert tcp["keepalives_idle"] + tcp["keepalives_interval"] * tcp["keepalives_count"] <= 60
    assert 0 < tcp["user_timeout"] <= 60_000


def test_what_the_user_asks_of_libpq_counts(dsn: str) -> None:
    options = make_conninfo(dsn, application_name="mine", options="-c work_mem=3MB")
    with Reader(options) as reader:
        assert shown(reader, "application_name") == "pglock-inspect"  # what others look for
        assert reader.read().server.database == "postgres"


def test_the_server_is_described(reader: Reader, connect: Connect) -> None:
    server = reader.read().server
    plain = connect()
    expected = plain.execute(
        """SELECT current_setting('server_version_num')::int, current_database(),
                  current_setting('max_connections')::int,
                  current_setting('max_locks_per_transaction')::int
                  * (current_setting('max_connections')::int
                     + current_setting('max_prepared_transactions')::int)"""
    ).fetchone()
    assert expected == (
        server.version_num,
        server.database,
        server.max_connections,
        server.lock_slots_guaranteed,
    )
    assert server.version.startswith(str(server.version_num // 10000))
    assert server.privileged
    assert not server.in_recovery
    assert server.pooler is None


def test_it_says_where_it_arrived(start_server: StartServer) -> None:
    with Reader(start_server().dsn(host="localhost")) as reader:
        assert re.fullmatch(r"localhost:\d+", reader.target)


# --- What cannot be had ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("host=localhost port", "missing"),
        ("postgresql://user:geheim/ssig@localhost/app", "no host or no port"),
        ("postgresql://user:pass@geheim@localhost/app", "no host or no port"),
        ("hots=localhost", "invalid connection option"),
        ("password=geheim hots=localhost", "invalid connection option"),
        ("postgresql://user:geheim@[::1/app", "matching"),
        ("postgresql://user:12/geheim@localhost/app", "no host or no port"),
        ("host=localhost password=geheim\udcff", "not UTF-8"),
    ],
)
def test_a_bad_connection_string_is_not_repeated(dsn: str, said: str) -> None:
    with pytest.raises(BadConnectionString, match=said) as raised:
        Reader(dsn)
    assert "geheim" not in str(raised.value)
    assert is_one_sentence(raised.value)


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    error = failure(f"host=127.0.0.1 port={port} password=geheim dbname=app")
    assert error.reason == "connect"
    assert f"cannot connect to 127.0.0.1:{port}: " in str(error)
    assert "refused" in str(error)
    assert "geheim" not in str(error)
    assert is_one_sentence(error)


def test_somebody_listens_who_never_answers() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = failure(f"host=127.0.0.1 port={silent.getsockname()[1]} connect_timeout=2")
    assert error.reason == "timeout"
    assert is_one_sentence(error)


def test_somebody_listens_who_is_no_postgresql() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            client, _ = other.accept()
            with client:
                client.recv(100)
                client.sendall(b"HTTP/1.1 400 Bad Request\x1b[31m\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        error = failure(f"host=127.0.0.1 port={other.getsockname()[1]} sslmode=disable gssencmode=disable")
        thread.join()
    assert error.reason == "connect"
    assert is_one_sentence(error)


@pytest.mark.parametrize("password", ["geheim", ""])
def test_a_wrong_password_or_none_is_named_and_not_printed(start_server: StartServer, password: str) -> None:
    server = start_server(password="secret")
    given = {"password": password} if password else {}
    error = failure(make_conninfo(server.dsn(user="postgres"), **given))
    assert error.reason == "auth"
    assert "password" in str(error)
    assert "geheim" not in str(error)
    assert is_one_sentence(error)
    with Reader(server.dsn()) as reader:
        assert reader.read().server.privileged


@pytest.mark.parametrize(
    ("parameters", "reason", "said"),
    [
        (
            {"dbname": "nowhere"},
            "connect",
            'database "nowhere" does not exist; check the name of the database',
        ),
        ({"user": "noone"}, "auth", 'role "noone" does not exist; check user, password'),
    ],
)
def test_an_unknown_database_or_role_is_named(
    server: Server, parameters: dict[str, str], reason: FailureReason, said: str
) -> None:
    error = failure(server.dsn(**parameters))
    assert error.reason == reason
    assert said in str(error)
    assert is_one_sentence(error)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"host": "a" * 100}, "that is no name of a host; correct the connection string"),
        ({"host": "", "service": "nowhere"}, "to service nowhere: "),
        ({"sslmode": "maybe"}, ": invalid sslmode value"),
        ({"port": "99999"}, ": invalid port number"),
        ({"connect_timeout": "soon"}, ": bad value for connect_timeout"),
        ({"options": "-c nothing=1"}, 'unrecognized configuration parameter "nothing"'),
    ],
)
def test_what_is_asked_for_and_not_to_be_had(server: Server, parameters: dict[str, str], said: str) -> None:
    error = failure(server.dsn(**parameters))
    assert said in str(error)
    assert "; correct the connection string" in str(error)
    assert is_one_sentence(error)


@pytest.mark.parametrize("asked", ["standby", "read-only"])
def test_no_host_is_what_is_asked_for(server: Server, asked: str) -> None:
    """Which may change by itself: so it is during a failover."""
    error = failure(server.dsn(target_session_attrs=asked))
    assert "; wait for the end of a failover, or correct target_session_attrs" in str(error)
    assert error.reason == "connect"
    assert is_one_sentence(error)


def test_a_database_that_takes_no_connections(janitor: Connection, database: str, server: Server) -> None:
    janitor.execute(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false".encode())
    error = failure(server.dsn(dbname=database))
    assert "is not currently accepting connections; connect to another database" in str(error)
    assert is_one_sentence(error)


def test_a_session_that_is_ended_raises_once_and_says_so(dsn: str, janitor: Connection) -> None:
    with Reader(dsn) as reader:
        reader.read()
        janitor.execute("SELECT pg_terminate_backend(%s)", [reader.connection.info.backend_pid])
        with pytest.raises(ServerFailure) as raised:
            wait_until(lambda: reader.read() is None, "the session is gone")
    assert raised.value.reason == "connect"
    assert is_one_sentence(raised.value)


def test_a_server_that_falls_silent_is_given_up(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_PATIENCE", 0.3)
    with Proxy(dsn) as proxy, Reader(proxy.dsn) as reader:
        reader.read()
        proxy.frozen = True
        began = time.monotonic()
        with pytest.raises(ServerFailure, match=r"did not answer within 0\.3 s") as raised:
            reader.read()
        assert time.monotonic() - began < 3
        assert raised.value.reason == "timeout"
        assert is_one_sentence(raised.value)
        assert not reader.usable


def test_a_statement_that_takes_too_long_is_given_up(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Reader(dsn, statement_timeout=0.2) as reader:
        reader.read()
        with monkeypatch.context() as patch:
            sleep_before_activity(patch)
            with pytest.raises(ServerFailure, match="statement timeout") as raised:
                reader.read()
        assert raised.value.reason == "timeout"
        assert is_one_sentence(raised.value)
        assert reader.read().sessions  # the session is as good as before


def test_a_locked_catalog_holds_a_reader_up_for_a_moment_only(connect: Connect, dsn: str) -> None:
    """Names are read from ``pg_authid`` and ``pg_database``; what was known of them stays."""
    seconds = 0.0
    with Reader(dsn, clock=lambda: seconds) as reader:
        before = reader.read()
        vandal, worker = connect(), connect()
        worker.execute("SELECT pg_advisory_lock(1)")
        vandal.execute("BEGIN")
        vandal.execute("LOCK TABLE pg_authid, pg_database")
        seconds += 100
        snapshot = reader.read()
        assert keys_of(snapshot, worker) == {(key(1), "ExclusiveLock")}
        assert snapshot.databases == before.databases
        assert snapshot.sessions[worker.info.backend_pid].user == "postgres"
        vandal.execute("ROLLBACK")

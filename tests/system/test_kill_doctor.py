"""`kill` and `doctor` as commands: exit codes, what is asked, what is printed."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.support.command import COMMAND, Pglock
from tests.support.pooler import pgbouncer
from tests.support.tmux import terminal
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Connect, Connection, StartServer

TAKE = "SELECT pg_advisory_lock(hashtext('send_daily_digest'))"


@pytest.fixture
def holder(connect: Connect) -> Connection:
    connection = connect("worker-3")
    connection.execute(TAKE)
    return connection


def lives(connection: Connection) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def lines(stderr: str) -> list[str]:
    """What is said, after checking that nothing else is on stderr."""
    said = stderr.splitlines()
    assert all(line.startswith("pglock-inspect: ") for line in said), stderr
    return [line.removeprefix("pglock-inspect: ") for line in said]


def test_a_script_has_to_say_yes(pglock: Pglock, holder: Connection) -> None:
    pid = holder.info.backend_pid
    refused = pglock("kill", "send_daily_digest", code=1)
    assert not refused.stdout
    held, does, loses, asked = lines(refused.stderr)
    assert re.fullmatch(
        rf"pid {pid} \(postgres, worker-3\) at 127\.0\.0\.1:\d+ holds send_daily_digest "
        r"in database postgres: held .*, at least .* \(evidence: session_state\)",
        held,
    )
    assert re.fullmatch(r"it is idle, for .*", does)
    assert loses == "ended, it loses its connection, its 1 advisory lock"
    assert asked == (
        "nobody is there to be asked: --yes does it, --dry-run tells what "
        f"(SELECT pg_terminate_backend({pid}))"
    )
    dry = pglock("kill", str(pid), "--dry-run")
    assert dry.stdout == f"SELECT pg_terminate_backend({pid});  -- was not run\n"
    assert lives(holder)
    done = pglock("kill", "send_daily_digest", "--yes")
    assert done.stdout == f"pid {pid} (postgres, worker-3) is gone; send_daily_digest is free\n"
    assert not lives(holder)
    again = pglock("kill", "send_daily_digest", "--yes", code=1)
    assert lines(again.stderr) == ["nobody holds 'send_daily_digest': nothing was done"]


def test_a_waiter_is_cancelled_by_its_number(pglock: Pglock, holder: Connection, connect: Connect) -> None:
    waiter = connect("worker-1")
    waiter.pgconn.send_query(TAKE.encode())
    pid = waiter.info.backend_pid
    waits = "SELECT FROM pg_locks WHERE pid = %s AND NOT granted"
    wait_until(lambda: holder.execute(waits, [pid]).fetchone() is not None, "it waits")
    done = pglock("kill", str(pid), "--yes")
    assert done.stdout == f"pid {pid} (postgres, worker-1) no longer waits for send_daily_digest\n"
    assert lives(holder)
    refused = pglock("kill", "send_daily_digest", "--cancel", code=1)
    assert "pg_cancel_backend would change nothing, since it is idle; --terminate ends it" in refused.stderr


def test_a_prepared_transaction_gets_the_statement_that_ends_it(pglock: Pglock, connect: Connect) -> None:
    session = connect()
    session.execute("BEGIN")
    session.execute("SELECT pg_advisory_xact_lock(-42)")
    session.execute("PREPARE TRANSACTION 'payout ''8131'''")
    done = pglock("kill", "-42", "--yes", code=1)
    assert done.stdout == "ROLLBACK PREPARED 'payout ''8131''';  -- in database postgres\n"
    (said,) = lines(done.stderr)
    assert "which no signal reaches: in database postgres, run the statement printed here" in said
    session.execute(done.stdout.encode())


def test_a_session_that_never_rests_is_ended_all_the_same(pglock: Pglock, holder: Connection) -> None:
    def work() -> None:
        while lives(holder):
            pass

    worker = threading.Thread(target=work)
    worker.start()
    done = pglock("kill", "send_daily_digest", "--yes")
    assert done.stdout.endswith("is gone; send_daily_digest is free\n")
    worker.join(10)
    assert not worker.is_alive()


def test_on_a_terminal_it_asks_first(pglock: Pglock, holder: Connection) -> None:
    pid = holder.info.backend_pid
    command = ["sh", "-c", f"{' '.join(COMMAND)} kill send_daily_digest; echo exit=$?"]
    for answer, code, said in (("n", 1, "nothing was done"), ("y", 0, "is gone; send_daily_digest is free")):
        directory = pglock.directory / answer
        directory.mkdir()
        shell = [*command[:2], command[2] + "; sleep 60"]
        with terminal(shell, directory, pglock.environment(TERM="screen"), size=(160, 24)) as screen:
            screen.wait_for(f"Terminate pid {pid}? [y/N]:")
            assert "ended, it loses its connection, its 1 advisory lock" in screen.text
            screen.press(answer, "Enter")
            screen.wait_for(f"exit={code}")
            assert said in screen.text
        assert lives(holder) is (answer == "n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["1", "--terminate", "--cancel"], "--terminate and --cancel exclude each other: give one of them"),
        ([], "missing argument 'JOB|KEY|pid:N'"),
        (["1", "--dsn", "host=127.0.0.1 port=1"], "cannot connect to 127.0.0.1:1: "),
    ],
)
def test_what_cannot_be_looked_at_is_exit_code_3(pglock: Pglock, arguments: list[str], sentence: str) -> None:
    assert lines(pglock("kill", *arguments, code=3).stderr)[0].startswith(sentence)


def test_what_a_session_calls_itself_cannot_paint(pglock: Pglock, connect: Connect) -> None:
    holder = connect("\x1b[31mred\u202e")
    holder.execute("SELECT pg_advisory_lock(hashtext(E'\\x1b[2Jjob'))")
    done = pglock("kill", f"pid:{holder.info.backend_pid}", "--yes")
    assert "\x1b" not in done.stdout + done.stderr
    assert "\u202e" not in done.stdout + done.stderr
    assert not lives(holder)


def checks(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["check"]: check for check in document["checks"]}


def test_doctor_says_the_same_in_both_formats(pglock: Pglock) -> None:
    done = pglock("doctor", "--format", "json", code=1)
    document = json.loads(done.stdout)
    assert not done.stderr
    assert (document["schema_version"], document["status"], document["exit_code"]) == (1, "WARNING", 1)
    assert re.fullmatch(r"127\.0\.0\.1:\d+", document["target"])
    assert {check["grade"] for check in document["checks"]} == {"ok", "warning"}
    dead = checks(document)["dead-client"]
    assert "ALTER SYSTEM SET tcp_keepalives_idle" in dead["fix"]
    text = pglock("doctor", code=1).stdout
    assert text.splitlines()[0] == document["target"]
    for check in document["checks"]:
        assert re.search(rf"{check['grade']} +{check['check']}  ", text), check
    assert f"▲ warning  dead-client     {dead['value']}\n" in text
    assert f"do: {dead['fix']}\n" in text


def test_doctor_warns_of_jobs_with_hostile_names(pglock: Pglock) -> None:
    (pglock.directory / "pglock-inspect.toml").write_text(
        '[[jobs]]\nname = "a\\u001b[31m"\nkey = 7\n\n'
        '[[jobs]]\nname = "7"\nscheme = "int"\ndatabase = "postgres"\n'
    )
    done = pglock("doctor", "--format", "text", code=1)
    assert "\x1b" not in done.stdout
    assert r"7 and a\x1b[31m have the same key" in done.stdout


def test_doctor_is_unknown_without_a_server_and_failing_without_a_connection(
    pglock: Pglock, start_server: StartServer
) -> None:
    away = pglock("doctor", "--dsn", "host=127.0.0.1 port=1", "--format", "json", code=3)
    document = json.loads(away.stdout)
    assert (document["status"], document["exit_code"], document["checks"]) == ("UNKNOWN", 3, [])
    assert lines(away.stderr) == [document["error"]]
    assert document["error"].startswith("cannot connect to 127.0.0.1:1: ")
    server = start_server({"max_connections": 4, "superuser_reserved_connections": 2})
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        admin.execute("CREATE ROLE app LOGIN")
        with psycopg.connect(server.dsn(user="app")), psycopg.connect(server.dsn()):
            full = pglock("doctor", "--dsn", server.dsn(user="app"), code=2)
        assert "connection slots are reserved" in full.stderr


@pytest.mark.requires("pgbouncer")
def test_doctor_through_a_pooler_says_what_it_is(dsn: str, pglock: Pglock) -> None:
    with pgbouncer(dsn, "transaction", pool_size=2) as through:
        done = pglock("doctor", "--dsn", through, code=2)
        assert "✗ failure  pooler          one pools by transaction" in done.stdout
    with pgbouncer(dsn, "statement", pool_size=2) as through:
        done = pglock("doctor", "--dsn", through, code=2)
        assert "✗ failure  reading         cannot read the server" in done.stdout
        assert not done.stderr


def test_both_work_on_a_standby(start_server: StartServer, tmp_path: Path) -> None:
    primary = start_server()
    with primary.standby() as standby:
        pglock = Pglock(tmp_path, standby.dsn())
        with psycopg.connect(standby.dsn(application_name="reader"), autocommit=True) as holder:
            holder.execute("SELECT pg_advisory_lock(42)")
            found = checks(json.loads(pglock("doctor", "--format", "json", code=1).stdout))
            assert found["self-test"]["grade"] == "ok"
            assert found["standby"]["grade"] == "warning"
            assert "not those of the primary" in found["standby"]["value"]
            assert pglock("kill", "42", "--yes").stdout.endswith("is gone; key 42 is free\n")
            assert not lives(holder)

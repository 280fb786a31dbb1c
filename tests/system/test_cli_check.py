from __future__ import annotations

import json
import re
import subprocess
import time
from typing import TYPE_CHECKING

import psycopg

from tests.support.command import Pglock
from tests.support.requirements import program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Connect, StartServer

CHECK = ("check", "--job", "send_daily_digest", "--max-held", "1s")


def test_a_job_held_too_long_is_critical_until_it_is_free(pglock: Pglock, connect: Connect) -> None:
    holder = connect("worker-1")
    holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    time.sleep(2)
    done = pglock(*CHECK, code=2)
    said = re.match(
        r"PGLOCK CRITICAL - send_daily_digest is stale: pid (\d+) .* held it for (\S+) s", done.stdout
    )
    assert said
    assert int(said[1]) == holder.info.backend_pid
    assert 2 <= float(said[2]) < 30
    assert not done.stderr
    holder.execute("SELECT pg_advisory_unlock(hashtext('send_daily_digest'))")
    assert pglock(*CHECK).stdout == (
        "PGLOCK OK - 0 held, 0 waiting | 'held'=0;;;0 'waiting'=0;;;0 'critical'=0;;;0 'warning'=0;;;0"
        " 'send_daily_digest held'=0s;;1;0 'send_daily_digest waited'=0s;60;;0"
        " 'send_daily_digest waiters'=0;;;0\n"
    )


def test_a_server_that_is_down_is_unknown(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    pglock = Pglock(tmp_path, server.dsn())
    pglock(*CHECK)
    server.stop()
    done = pglock(*CHECK, code=3)
    assert done.stdout.startswith(f"PGLOCK UNKNOWN - cannot connect to 127.0.0.1:{server.port}: ")
    assert done.stderr.startswith(f"pglock-inspect: cannot connect to 127.0.0.1:{server.port}: ")
    document = json.loads(pglock("check", "--format", "json", code=3).stdout)
    assert (document["status"], document["exit_code"], document["server"]) == ("UNKNOWN", 3, None)


def test_doctor_and_ls_tell_of_a_server_that_lets_nobody_log_in(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server()
    pglock = Pglock(tmp_path, server.dsn(connect_timeout=2))
    with psycopg.connect(server.dsn()) as vandal:
        vandal.execute("LOCK TABLE pg_authid")
        for done in (pglock("doctor", code=2), pglock("ls", code=3)):
            assert "the server answers, but the login hangs" in done.stdout + done.stderr
        vandal.rollback()


def test_only_the_asked_jobs_count(pglock: Pglock, connect: Connect) -> None:
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(hashtext('other'))")
    time.sleep(0.2)
    pglock("check", "--max-held", "100ms", code=1)  # nobody configured it
    pglock("check", "--max-held", "100ms", "--job", "other", code=2)
    pglock("check", "--max-held", "100ms", "--job", "send_daily_digest")


def test_a_session_whose_keys_are_named_in_part(pglock: Pglock, connect: Connect) -> None:
    connect().execute("SELECT pg_advisory_lock(hashtext('job')), pg_advisory_lock(7), pg_advisory_lock(8)")
    time.sleep(0.2)
    done = pglock("check", "--max-held", "100ms", code=1)
    assert "job is stale: " in done.stdout
    assert "'warning'=" in done.stdout


def test_json_adds_the_verdict(pglock: Pglock, connect: Connect) -> None:
    connect().execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    time.sleep(0.2)
    done = pglock("check", "--job", "send_daily_digest", "--max-held", "100ms", "--format", "json", code=2)
    document = json.loads(done.stdout)
    assert [*document][-2:] == ["status", "exit_code"]
    assert (document["status"], document["exit_code"]) == ("CRITICAL", 2)
    assert [finding["rule"] for finding in document["findings"]] == ["stale"]


def test_limits_apply_to_a_known_product_by_its_name(pglock: Pglock, connect: Connect) -> None:
    connect().execute("SELECT pg_advisory_lock(72707369)")
    done = pglock("check", "--job", "Prisma migrations", "--max-held", "1ms", code=2)
    assert "Prisma migrations is stale" in done.stdout
    assert "'Prisma migrations held'=0s" not in done.stdout


def test_promtool_finds_nothing_wrong_with_the_textfile(pglock: Pglock, connect: Connect) -> None:
    connect().execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    metrics = pglock("check", "--job", "send_daily_digest", "--format", "prometheus").stdout
    assert "pglock_job_held{" in metrics
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"], input=metrics, capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_a_name_that_may_be_misspelt_is_told(pglock: Pglock, connect: Connect) -> None:
    guess = (
        r"pglock-inspect: nobody holds '{}' on \S+ or waits for it, and no job of this name is configured: "
        r"it was taken to mean key -?\d+ \(hashtext\); correct or configure it\n"
    )
    done = pglock("check", "--job", "send_dayly_digest")
    assert done.stdout.startswith("PGLOCK OK - ")
    assert re.fullmatch(guess.format("send_dayly_digest"), done.stderr)
    free = pglock("check", "--must-be-free", "migrate", "--must-be-free", "import")
    assert re.fullmatch(guess.format("migrate") + guess.format("import"), free.stderr)
    connect().execute("SELECT pg_advisory_lock(hashtext('send_dayly_digest'))")
    assert not pglock("check", "--job", "send_dayly_digest").stderr
    pglock.directory.joinpath("pglock-inspect.toml").write_text('[[jobs]]\nname = "migrate"\n')
    assert not pglock("check", "--job", "migrate").stderr

"""`check` told what must be held, what must be free, and that nothing must be left."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.support.command import Pglock
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.support.servers import Connect, Connection, StartServer

LOCK = "SELECT pg_advisory_lock(hashtext('leader'))"
UNLOCK = "SELECT pg_advisory_unlock(hashtext('leader'))"
NOT_CONFIGURED = re.compile(r"pglock-inspect: nobody holds 'leader' on .* is configured: .*\n")


def looking(pglock: Pglock, janitor: Connection, *options: str) -> subprocess.Popen[str]:
    """A check that has looked once, and found that it has to look again."""
    process = pglock.start("check", *options)
    seen = "SELECT FROM pg_stat_activity WHERE application_name = 'pglock-inspect' AND state = 'idle'"
    wait_until(lambda: janitor.execute(seen).rowcount > 0, "it has looked")
    return process


def test_what_must_be_held(pglock: Pglock, connect: Connect) -> None:
    done = pglock("check", "--must-be-held", "leader", code=2)
    assert done.stdout.startswith("PGLOCK CRITICAL - leader must be held, and nobody holds it | ")
    connect().execute(LOCK)
    pglock("check", "--must-be-held", "leader")


def test_what_must_be_free(pglock: Pglock, connect: Connect) -> None:
    pglock("check", "--must-be-free", "leader")
    holder = connect("worker-1")
    holder.execute(LOCK)
    done = pglock("check", "--must-be-free", "leader", "--job", "another", code=2)
    pid = holder.info.backend_pid
    assert f"leader must be free, and pid {pid} (" in done.stdout
    assert done.stdout.splitlines()[1].endswith(f": pglock-inspect kill {pid} --terminate")


def test_it_waits_until_somebody_holds_it(pglock: Pglock, connect: Connect, janitor: Connection) -> None:
    holder = connect()
    process = looking(pglock, janitor, "--must-be-held", "leader", "--within", "50s")
    holder.execute(LOCK)
    out, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (0, "")
    assert out.startswith("PGLOCK OK - 1 held")


def test_it_waits_until_it_is_free(pglock: Pglock, connect: Connect, janitor: Connection) -> None:
    holder = connect()
    holder.execute(LOCK)
    process = looking(pglock, janitor, "--must-be-free", "leader", "--no-locks", "--within", "50s")
    holder.execute(UNLOCK)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 0
    assert NOT_CONFIGURED.fullmatch(err)
    assert out.startswith("PGLOCK OK - 0 held")


def test_it_waits_for_a_server_that_is_not_up_yet(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    server.stop()
    process = Pglock(tmp_path, server.dsn()).start("check", "--must-be-free", "leader", "--within", "50s")
    time.sleep(1)
    assert process.poll() is None
    server.restart()
    out, err = process.communicate(timeout=10)
    assert process.returncode == 0
    assert NOT_CONFIGURED.fullmatch(err)
    assert out.startswith("PGLOCK OK")


def test_it_waits_no_longer_than_it_may(pglock: Pglock) -> None:
    started = time.monotonic()
    pglock("check", "--must-be-held", "leader", "--within", "1s", code=2)
    assert 1 < time.monotonic() - started < 10


@pytest.fixture
def here(dsn: str, database: str, tmp_path: Path) -> Pglock:
    """The command, in a database of its own."""
    return Pglock(tmp_path, f"{dsn} dbname={database}")


def test_nothing_is_left_in_this_database(here: Pglock, connect: Connect, database: str) -> None:
    connect("elsewhere").execute("SELECT pg_advisory_lock(1)")
    here("check", "--no-locks")
    leak = connect("pytest", dbname=database)
    leak.execute("SELECT pg_advisory_lock(42), pg_advisory_lock(7, 8)")
    done = here("check", "--no-locks", "--format", "json", code=2)
    (finding,) = [finding for finding in json.loads(done.stdout)["findings"] if finding["rule"] == "no-locks"]
    assert finding["pid"] == leak.info.backend_pid
    assert "holds key 42, key 7,8, where database pglock_test must have no lock left" in finding["summary"]
    assert "2 locks; held " in finding["evidence"]
    suite = ET.fromstring(here("check", "--no-locks", "--format", "junit", code=2).stdout).find("testsuite")
    assert suite is not None
    assert [case.get("name") for case in suite] == ["no-locks"]


def test_a_stamp_goes_with_its_lock_and_one_without_is_left(
    here: Pglock, connect: Connect, database: str
) -> None:
    holder = connect(dbname=database)
    holder.execute(
        "SELECT pg_advisory_lock(42),"
        " pg_try_advisory_lock_shared(42, floor(extract(epoch FROM clock_timestamp()))::bigint::bit(32)::int)"
    )
    told = here("check", "--no-locks", code=2).stdout.splitlines()
    assert " holds key 42, where " in told[0]
    holder.execute("SELECT pg_advisory_unlock(42)")
    assert " holds key 42," in here("check", "--no-locks", code=2).stdout.splitlines()[0]


def test_severities(pglock: Pglock, connect: Connect) -> None:
    connect().execute("SELECT pg_advisory_lock(42)")
    time.sleep(0.2)
    check = ("check", "--max-held", "100ms")
    pglock(*check, code=1)
    pglock(*check, "--severity", "stale=critical", code=2)
    pglock(*check, "--severity", "stale=info", "--severity", "leaked=off")
    pglock("check", "--no-locks", "--severity", "no-locks=warning", code=1)
    pglock("check", "--no-locks", "--severity", "no-locks=off")


def test_a_job_by_every_name_that_it_has(pglock: Pglock, connect: Connect) -> None:
    pglock.directory.joinpath("pglock-inspect.toml").write_text(
        '[[jobs]]\nname = "rebuild"\nkey = [42, 7]\n[[jobs]]\nname = "tenants"\nmatch = "tenant:*"\n'
    )
    connect().execute("SELECT pg_advisory_lock(42, 7), pg_advisory_lock(hashtext('tenant:1'))")
    pglock("check", "--must-be-held", "rebuild", "--must-be-held", "tenants")
    pglock("check", "--must-be-held", "tenant:1")

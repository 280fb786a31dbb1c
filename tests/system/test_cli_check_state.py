"""`check --state-file`: what one run observed counts in the next."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command import Pglock
from tests.support.watching import begin

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Connect, Connection, StartServer

CHECK = ("check", "--state-file", "state")


@pytest.fixture
def busy(connect: Connect) -> Connection:
    """A session that holds a lock, and whose statement may have taken it at any time."""
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    begin(holder, "SELECT pg_sleep(60) /* pg_advisory_lock */")
    return holder


def document(pglock: Pglock, *options: str, code: int = 0) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(pglock(*CHECK, "--format", "json", *options, code=code).stdout)
    return read


def test_an_age_is_observed_from_run_to_run(pglock: Pglock, busy: Connection) -> None:
    first = document(pglock)["locks"][0]["held"]
    assert (first["seconds"], first["evidence"]) == (None, "none")
    assert json.loads(pglock("check", "--format", "json").stdout)["locks"][0]["held"]["evidence"] == "none"
    second = document(pglock)["locks"][0]["held"]
    assert second["evidence"] == "observed"
    assert 0 < second["seconds"] <= second["at_most"]
    pglock(*CHECK, "--max-held", "100ms", code=1)
    assert busy.info.backend_pid


def test_enough_runs_in_a_row_are_critical(pglock: Pglock, busy: Connection) -> None:
    pglock.directory.joinpath("pglock-inspect.toml").write_text("[rules.stale]\nthreshold = 3\n")
    check = (*CHECK, "--job", "send_daily_digest", "--max-held", "1ms")
    pglock(*check)
    pglock(*check, code=1)
    assert "send_daily_digest is stale: " in pglock(*check, code=2).stdout
    assert busy.info.backend_pid


def test_a_run_without_the_lock_proves_how_old_it_is_at_most(pglock: Pglock, connect: Connect) -> None:
    holder = connect()
    pglock(*CHECK)
    started = time.monotonic()
    holder.execute("SELECT pg_advisory_lock(42)")
    time.sleep(0.1)
    held = document(pglock)["locks"][0]["held"]
    assert held["at_least"] <= held["at_most"] < time.monotonic() - started + 10
    connected = json.loads(pglock("check", "--format", "json").stdout)["locks"][0]["held"]["at_most"]
    assert held["at_most"] < connected


def test_a_job_that_is_missed_and_one_that_was_never_seen(pglock: Pglock, connect: Connect) -> None:
    pglock.directory.joinpath("pglock-inspect.toml").write_text(
        "".join(f'[[jobs]]\nname = "{name}"\nevery = "5s"\nmin_held = "60s"\n' for name in ("ran", "never"))
    )
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(hashtext('ran'))")
    pglock(*CHECK)
    holder.close()
    pglock(*CHECK, code=None)  # a slow machine may be late already
    time.sleep(5)
    done = pglock(*CHECK, code=2)
    assert done.stdout.startswith("PGLOCK CRITICAL - ran has not been seen to run for ")
    assert "WARNING - never was never seen to run, expected every 5 s" in done.stdout
    assert pglock("check").stdout.startswith("PGLOCK OK")


def test_nothing_is_left_of_locks_that_a_restart_ended(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    pglock = Pglock(tmp_path, server.dsn())
    pglock(*CHECK)
    assert _states(tmp_path)["last"]["poll"] == 1
    server.stop()
    pglock(*CHECK, code=3)
    assert _states(tmp_path)["last"]["poll"] == 1
    server.restart()
    pglock(*CHECK)
    assert _states(tmp_path)["last"]["poll"] == 1


def _states(directory: Path) -> dict[str, Any]:
    (state,) = json.loads(directory.joinpath("state").read_text())["states"].values()
    assert isinstance(state, dict)
    return state


def test_targets_share_a_file(pglock: Pglock) -> None:
    pglock.directory.joinpath("own.toml").write_text(
        "".join(f'[[targets]]\nname = "{name}"\ndsn = "{pglock.dsn}"\n' for name in ("a", "b"))
    )
    pglock(*CHECK, "--config", "own.toml", "--target", "all")
    pglock(*CHECK, "--config", "own.toml", "--target", "b")
    states = json.loads(pglock.directory.joinpath("state").read_text())["states"]
    assert {name: state["last"]["poll"] for name, state in states.items()} == {"a": 1, "b": 2}


def test_a_damaged_file_is_told_and_replaced(pglock: Pglock) -> None:
    pglock.directory.joinpath("state").write_text('{"file":"pglock-inspect state 1"')
    done = pglock(*CHECK)
    assert done.stderr == ("pglock-inspect: state is damaged or of another version: observing begins anew\n")
    assert pglock(*CHECK).stderr == ""


def test_a_file_of_somebody_else_is_left_alone(pglock: Pglock) -> None:
    file = pglock.directory.joinpath("state")
    file.write_text("mine")
    done = pglock(*CHECK, code=3)
    assert done.stderr == (
        "pglock-inspect: state is no state file of pglock-inspect: name another, or remove it\n"
    )
    assert (done.stdout, file.read_text()) == ("", "mine")


def test_a_verdict_is_given_even_if_nothing_can_be_noted(pglock: Pglock, busy: Connection) -> None:
    nowhere = ("check", "--state-file", "missing/state")
    why = "missing/state cannot be written (No such file or directory): name a file where this user may write"
    done = pglock(*nowhere, code=3)
    assert done.stdout.startswith(f"PGLOCK UNKNOWN - {why} | 'held'=1;;;0 ")
    assert done.stderr == f"pglock-inspect: {why}\n"
    assert json.loads(pglock(*nowhere, "--format", "json", code=3).stdout)["status"] == "UNKNOWN"
    assert "::error title=UNKNOWN " in pglock(*nowhere, "--format", "github", code=3).stdout
    assert '<error type="UNKNOWN" ' in pglock(*nowhere, "--format", "junit", code=3).stdout
    critical = pglock(*nowhere, "--no-locks", code=2)
    assert critical.stdout.startswith("PGLOCK CRITICAL - pid ")
    assert busy.info.backend_pid

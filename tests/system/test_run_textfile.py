"""The metrics that `run` notes of real runs."""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.requirements import program
from tests.support.running import IDLE, running
from tests.unit.test_run_textfile import NOTHING, values

if TYPE_CHECKING:
    from tests.support.command import Pglock
    from tests.support.servers import Connection


def test_every_way_to_end_is_noted(pglock: Pglock, janitor: Connection) -> None:
    file = pglock.directory / "runs.prom"
    options = ["digest", "--textfile", str(file)]
    pglock("run", *options, "--", "sleep", "0.2")
    noted = values(file)
    assert 0.2 <= noted["duration_seconds"] < 5
    pglock("run", *options, "--", "sh", "-c", "exit 3", code=3)
    pglock("run", *options, "--", "nonesuch", code=127)
    with running(pglock, *options, "--", "sh", "-c", IDLE) as run:
        pglock("run", *options, "--", "true")
        pglock("run", *options, "--on-busy", "fail", "--", "true", code=75)
        assert values(file)["skips_in_a_row"] == 2
        janitor.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        assert run.wait() == 76
    pglock("run", *options, "--dsn", "host=127.0.0.1 port=1", "--", "true", code=69)
    with running(pglock, *options, "--", "sh", "-c", IDLE) as run:
        run.send(signal.SIGTERM)
        assert run.wait() == 9
    after = values(file)
    after.pop("duration_seconds")
    assert after == NOTHING | {
        "success": 1,
        "failure": 3,
        "lost": 1,
        "skipped": 2,
        "unavailable": 1,
        "skips_in_a_row": 0,
        "exit_code": 9,
        "last_success_timestamp_seconds": noted["last_success_timestamp_seconds"],
    }


@pytest.mark.requires("promtool")
def test_prometheus_finds_no_fault_with_it(pglock: Pglock) -> None:
    file = pglock.directory / "runs.prom"
    pglock("run", 'größe "\\\n', "--textfile", str(file), "--", "true")
    subprocess.run([program("promtool"), "check", "metrics"], input=file.read_bytes(), check=True)


def test_a_file_that_cannot_be_used_is_told_before_the_program_runs(pglock: Pglock) -> None:
    for name, sentence in (
        ("nowhere/runs.prom", "no file can be written"),
        ("foreign.prom", "something else"),
    ):
        (pglock.directory / "foreign.prom").write_text("node_load1 1\n")
        done = pglock("run", "digest", "--textfile", name, "--", "echo", "ran", code=64)
        assert done.stdout == ""
        assert sentence in done.stderr


def test_a_file_that_cannot_be_written_any_more_does_not_change_the_exit_code(pglock: Pglock) -> None:
    (pglock.directory / "metrics").mkdir()
    done = pglock(
        "run", "digest", "--textfile", "metrics/runs.prom", "--", "sh", "-c", "rmdir metrics; exit 5", code=5
    )
    assert done.stderr == "pglock-inspect: metrics/runs.prom was not written: No such file or directory\n"

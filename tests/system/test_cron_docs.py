"""The examples of docs/cron.md: they are what they say they are, and their commands run."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from pglock_inspect.cli.exit_codes import RunCode
from pglock_inspect.lock import base
from pglock_inspect.run import SLACK, textfile
from tests.support.command import Pglock, parse
from tests.support.requirements import program

if TYPE_CHECKING:
    from tests.support.servers import Connect

PAGE = Path(__file__).parents[2].joinpath("docs", "cron.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


CRONTAB, FLOCK = blocks("crontab")
(MANIFEST,) = map(yaml.safe_load, blocks("yaml"))
SERVICE, TIMER = blocks("ini")
LINES = re.findall(r"^(?:\S+ ){5}\s*(pglock-inspect .*)$", CRONTAB, re.MULTILINE)
(CONTAINER,) = MANIFEST["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]


def unit(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return parser


EXEC = unit(SERVICE)["Service"]["ExecStart"]
COMMANDS = [*LINES, shlex.join(CONTAINER["command"] + CONTAINER["args"]), EXEC, *blocks("sh")]


@pytest.fixture
def app(pglock: Pglock) -> Pglock:
    """The command, where the programs of the examples are: each says its name, and how it was called."""
    for name in ("srv/app/bin/send_digest", "srv/app/bin/close_books", "bin/python"):
        path = pglock.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('#!/bin/sh\necho "${0##*/} $*"\n')
        path.chmod(0o755)
    return pglock


def shell(line: str, pglock: Pglock) -> subprocess.CompletedProcess[str]:
    """Run the command of a line as cron does; / is the test's directory, and the environment all there is."""
    home = pglock.directory
    path = f"{home}/bin:{Path(sys.executable).parent}:{os.defpath}"
    return subprocess.run(
        ["/bin/sh", "-c", line.replace("/srv", f"{home}/srv").replace("/usr/local/bin/", "")],
        cwd=home,
        env={
            "HOME": str(home),
            "SHELL": "/bin/sh",
            "PATH": path,
            "PGLOCK_DSN": str(pglock.dsn),
            "PYTHONPATH": pglock.environment()["PYTHONPATH"],
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        timeout=60,
    )


def test_the_page_has_a_command_in_each_example() -> None:
    assert len(COMMANDS) == 5
    for line in COMMANDS:
        parse(line)


OUTPUTS = ["send_digest \n", "close_books \n", "python manage.py send_digest\n", "send_digest \n"]


@pytest.mark.parametrize(("line", "output"), list(zip(COMMANDS[:4], OUTPUTS, strict=True)))
def test_every_example_runs(app: Pglock, line: str, output: str) -> None:
    done = shell(line, app)
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


def test_a_crontab_line_is_silent_where_another_host_is_at_work(app: Pglock, connect: Connect) -> None:
    connect().execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    connect().execute("SELECT pg_advisory_lock(hashtext('close_books'))")
    quiet, fail = LINES
    done = shell(quiet, app)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    done = shell(fail.replace("10m", "100ms"), app)
    assert (done.returncode, done.stderr) == (
        75,
        "pglock-inspect: close_books is busy after 100 ms: skipped\n",
    )


def test_a_crontab_line_tells_that_the_server_is_away(app: Pglock) -> None:
    done = shell(LINES[0], Pglock(app.directory, "host=127.0.0.1 port=1"))
    assert done.returncode == 69
    assert "Connection refused" in done.stderr


def test_the_crontab_is_one() -> None:
    for line in (CRONTAB + FLOCK).splitlines():
        assert re.fullmatch(r"[A-Z_]+=\S+|(?:[\d*/]+\s+){5}\S[^%]*", line), line


def test_the_manifest_is_a_cron_job() -> None:
    assert (MANIFEST["apiVersion"], MANIFEST["kind"]) == ("batch/v1", "CronJob")
    assert MANIFEST["spec"].keys() == {"schedule", "concurrencyPolicy", "jobTemplate"}
    pod = MANIFEST["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod.keys() == {"restartPolicy", "terminationGracePeriodSeconds", "containers"}
    assert pod["restartPolicy"] == "Never"
    assert all(isinstance(word, str) for word in CONTAINER["command"] + CONTAINER["args"])
    (variable,) = CONTAINER["env"]
    assert variable["name"] == "PGLOCK_DSN"


def test_the_units_belong_together() -> None:
    service, timer = unit(SERVICE), unit(TIMER)
    assert service["Service"]["Type"] == "oneshot"
    assert service["Service"]["KillMode"] == "mixed"
    assert int(service["Service"]["SuccessExitStatus"]) == RunCode.BUSY
    assert EXEC.startswith("/")
    assert timer["Timer"]["OnCalendar"]


@pytest.mark.requires("systemd-analyze")
def test_systemd_finds_no_fault_with_the_units(tmp_path: Path) -> None:
    program_there = SERVICE.replace("/usr/local/bin/pglock-inspect", "/bin/true").replace("User=app\n", "")
    (tmp_path / "send-digest.service").write_text(program_there)
    (tmp_path / "send-digest.timer").write_text(TIMER)
    verify = [program("systemd-analyze"), "verify", "--man=no", *map(str, tmp_path.iterdir())]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert not re.search("send-digest.*(?:Unknown|Failed|Invalid)", done.stderr), done.stderr


def test_the_times_are_those_of_the_program() -> None:
    patience = base.BEAT + base.DEADLINE + SLACK
    assert f"asks every {base.BEAT:g} s" in PAGE
    assert f"gives the server {base.DEADLINE:g} s to answer" in PAGE
    assert f"lease of {base.LEASE:g} s" in PAGE
    assert f"told after {base.BEAT + base.DEADLINE:g} s at most, and gone after 20 s" in PAGE
    assert f"told {patience:g} s after the last answer, and gone after {patience + 10:g} s" in PAGE
    assert f"1.2 times {patience:g} s and `--kill-after`" in PAGE


def test_every_metric_has_its_row() -> None:
    rows = re.findall(r"^\| `(pglock_\w+)` \| (\w+) \|", PAGE, re.MULTILINE)
    suffixes = {"counter": "_total", "gauge": ""}
    assert rows == [
        (f"{name}{suffixes[family.type]}", family.type) for name, family in textfile._FAMILIES.items()
    ]

"""The examples of docs/ci.md: they are what they say they are, and their commands run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.support.command import Pglock, parse

if TYPE_CHECKING:
    from tests.support.servers import Connect

PAGE = Path(__file__).parents[2].joinpath("docs", "ci.md").read_text()
GITHUB, GITLAB, DEPLOYMENT = (
    yaml.safe_load(text) for text in re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)
STEPS: list[dict[str, Any]] = GITHUB["jobs"]["test"]["steps"]


def commands(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("pglock-inspect ")]


LINES = [
    *commands([step.get("run", "") for step in STEPS]),
    *commands(GITLAB["test"]["script"]),
    *commands(DEPLOYMENT["deploy"]["script"]),
]


def shell(line: str, pglock: Pglock) -> subprocess.CompletedProcess[str]:
    """Run a line as a CI system does."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-e", "-c", line],
        cwd=pglock.directory,
        env=pglock.environment(PATH=path),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def clean(dsn: str, database: str, tmp_path: Path) -> Pglock:
    """The command, in a database where nothing is locked."""
    return Pglock(tmp_path, f"{dsn} dbname={database}")


def test_the_page_has_a_command_in_each_example() -> None:
    assert len(LINES) == 4
    for line in LINES:
        parse(line)


def test_a_workflow_of_github_looks_even_after_tests_that_failed() -> None:
    job = GITHUB["jobs"]["test"]
    assert GITHUB.keys() == {"name", True, "jobs"}  # YAML 1.1 reads the key `on` so
    assert job.keys() == {"runs-on", "services", "env", "steps"}
    assert all(("uses" in step) != ("run" in step) for step in STEPS)
    (look,) = (step for step in STEPS if "pglock-inspect check" in step.get("run", ""))
    assert look["if"] == "always()"
    postgres = job["services"]["postgres"]
    (port,) = postgres["ports"]
    assert job["env"]["PGLOCK_DSN"] == (
        f"postgresql://postgres:{postgres['env']['POSTGRES_PASSWORD']}@localhost:{port.split(':')[0]}"
        f"/{postgres['env']['POSTGRES_DB']}"
    )


def test_a_job_of_gitlab_keeps_the_report_of_what_failed() -> None:
    job = GITLAB["test"]
    user, password, database = (job["variables"][f"POSTGRES_{part}"] for part in ("USER", "PASSWORD", "DB"))
    assert job["variables"]["PGLOCK_DSN"] == f"postgresql://{user}:{password}@postgres:5432/{database}"
    assert job["artifacts"]["when"] == "always"
    assert job["script"][-1].endswith(f"> {job['artifacts']['reports']['junit']}")


def test_github_gets_annotations(clean: Pglock, connect: Connect, database: str) -> None:
    line = LINES[0]
    done = shell(line, clean)
    assert (done.returncode, done.stdout[:11]) == (0, "::notice ti")
    leak = connect("pytest", dbname=database)
    leak.execute("SELECT pg_advisory_lock(42)")
    done = shell(line.replace("5s", "100ms"), clean)
    assert done.returncode == 2
    assert done.stdout.startswith("::error title=no-locks ")
    assert f"pid {leak.info.backend_pid} (" in done.stdout


def test_gitlab_gets_a_report(clean: Pglock, connect: Connect, database: str) -> None:
    line = LINES[1]
    connect("pytest", dbname=database).execute("SELECT pg_advisory_lock(42)")
    assert shell(line.replace("5s", "100ms"), clean).returncode == 2
    suite = ET.parse(clean.directory / "locks.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")


def test_a_deployment_waits_for_its_locks(clean: Pglock, connect: Connect, database: str) -> None:
    before, after = LINES[2:]
    assert shell(before, clean).returncode == 0
    assert shell(after.replace("60s", "100ms"), clean).returncode == 2
    connect(dbname=database).execute("SELECT pg_advisory_lock(hashtext('scheduler'))")
    assert shell(after, clean).returncode == 0

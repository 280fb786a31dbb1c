"""The packages as they are published, and environments into which one was installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.command import environment
from tests.support.pythons import VERSIONS, find

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]


class Packages(NamedTuple):
    sdist: Path
    wheel: Path


class Installed:
    """The wheel in an environment of its own, and what it says there in a directory of its own."""

    def __init__(self, python: Path, home: Path) -> None:
        self.python = python
        self.home = home
        self.here = home / "here"
        self.here.mkdir(parents=True, exist_ok=True)

    def __call__(
        self, *command: str | Path, code: int | None = 0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, or any other one."""
        inside = self.python.parent / command[0]
        done = subprocess.run(
            [inside if inside.exists() else command[0], *command[1:]],
            cwd=self.here,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert code is None or done.returncode == code, done.stderr + done.stdout
        return done

    def environment(self, **variables: str) -> Mapping[str, str]:
        found = environment(self.home, **variables)
        del found["PYTHONPATH"]  # the tree's
        return found | {"PATH": f"{self.python.parent}{os.pathsep}{found['PATH']}"}


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """A source distribution, and the wheel that was built from it."""
    directory = tmp_path_factory.mktemp("dist")
    built = subprocess.run(
        [sys.executable, "-m", "build", "--outdir", directory, ROOT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr + built.stdout
    (sdist,), (wheel,) = directory.glob("*.tar.gz"), directory.glob("*.whl")
    return Packages(sdist, wheel)


@pytest.fixture(scope="session", params=VERSIONS)
def installed(
    request: pytest.FixtureRequest, packages: Packages, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    """The wheel, installed with pip into an empty environment of each Python."""
    python = find(request.param)
    if python is None:
        pytest.skip(f"Python {request.param} is not installed")
    place = tmp_path_factory.mktemp(f"python-{request.param}-")
    subprocess.run([python, "-m", "venv", place / "venv"], check=True)
    own = place / "venv" / "bin" / "python"
    subprocess.run(
        [own, "-m", "pip", "install", "-qq", "--disable-pip-version-check", packages.wheel], check=True
    )
    return Installed(own, place / "home")

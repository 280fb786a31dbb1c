"""What is in the packages, and what is not."""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pglock_inspect import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.packaging.conftest import Packages

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pglock_inspect"
pytestmark = pytest.mark.slow


def in_wheel(packages: Packages) -> Mapping[str, bytes]:
    with zipfile.ZipFile(packages.wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}


def in_sdist(packages: Packages) -> Mapping[str, bytes]:
    """The files by their paths below the one directory that there is."""
    with tarfile.open(packages.sdist) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        top = {member.name.partition("/")[0] for member in members}
        assert top == {f"pglock_inspect-{__version__}"}
        return {
            member.name.partition("/")[2]: file.read()
            for member in members
            if (file := archive.extractfile(member))
        }


def test_the_wheel_is_the_package_and_nothing_else(packages: Packages) -> None:
    assert packages.wheel.name == f"pglock_inspect-{__version__}-py3-none-any.whl"
    tree = {
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    info = f"pglock_inspect-{__version__}.dist-info"
    added = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert set(in_wheel(packages)) == tree | {f"{info}/{name}" for name in added}


def test_what_is_no_python_is_there_too(packages: Packages) -> None:
    wanted = {
        *("py.typed", "data/alerts.yml", "data/report.schema.json", "postgres/queries/locks.sql"),
        *("present/page/files/page.html", "demo/demo.toml", "names/known.toml"),
    }
    assert {f"pglock_inspect/{name}" for name in wanted} <= set(in_wheel(packages))


def test_the_sources_are_what_builds_and_tests_it(packages: Packages) -> None:
    names = set(in_sdist(packages))
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "PKG-INFO", "tests/conftest.py"} <= names
    assert {"dashboards/__init__.py", "pglock_inspect/py.typed"} <= names
    litter = re.compile(r"(^|/)(__pycache__|node_modules|\.(?!gitignore|npmrc)[^/]*|dist|build)(/|$)")
    assert not [name for name in names if litter.search(name)]


def test_nothing_tells_of_the_machine_that_built_it(packages: Packages) -> None:
    own = [str(place).encode() for place in (ROOT, Path.home(), sys.prefix, sys.base_prefix)]
    machine = [place for place in own if place not in {b"/root", b"/usr"}]  # which texts may well be about
    for files in (in_wheel(packages), in_sdist(packages)):
        for name, content in files.items():
            for place in machine:
                assert place not in content, f"{place.decode()} in {name}"


def test_the_metadata_says_what_it_takes(packages: Packages) -> None:
    metadata = in_wheel(packages)[f"pglock_inspect-{__version__}.dist-info/METADATA"].decode()
    for line in (
        "Name: pglock-inspect",
        f"Version: {__version__}",
        "License-Expression: MIT",
        "License-File: LICENSE",
        "Requires-Python: >=3.11",
        "Provides-Extra: demo",
        "Description-Content-Type: text/markdown",
    ):
        assert line in metadata.splitlines()

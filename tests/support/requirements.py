"""What a laptop may lack: a test asking for it is skipped there by name, and fails where all is required."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

_NAMES = {
    "alertmanager": ("alertmanager", "prometheus-alertmanager"),
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
}
_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])

ALL_REQUIRED = os.environ.get("PGLOCK_TEST_REQUIRE") == "all"


def program(name: str) -> str:
    """Return the path of an installed program, or skip the test."""
    for candidate in _NAMES.get(name, (name,)):
        if path := shutil.which(candidate, path=_PATH):
            return path
    pytest.skip(f"{name} is not installed")


def require(name: str) -> None:
    """Skip the test unless `name` is here: `root`, `docker` (a daemon that answers) or a program."""
    if name == "root":
        if os.geteuid() != 0:
            pytest.skip("it takes root")
    elif name == "docker":
        answer = subprocess.run([program("docker"), "version"], capture_output=True, check=False)
        if answer.returncode:
            pytest.skip("docker has no daemon that answers")
    else:
        program(name)

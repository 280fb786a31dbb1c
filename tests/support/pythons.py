"""The Pythons of this machine: on PATH, or where pyenv keeps them.

`python -m tests.support.pythons 3.12` prints where that one is; without a version, the others than its own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = ("3.11", "3.12", "3.13")


def find(version: str) -> Path | None:
    """The newest Python of a version, with which virtual environments can be made."""
    return next(filter(_works, _candidates(version)), None)


def _candidates(version: str) -> Iterator[Path]:
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        yield Path(sys.executable)
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    releases = [path for path in kept.glob(f"{version}.*") if re.fullmatch(r"\d+", path.name.split(".")[-1])]
    for release in sorted(releases, key=lambda path: int(path.name.split(".")[-1]), reverse=True):
        yield release / "bin" / "python"


def _works(python: Path) -> bool:
    """Whether it is more than a shim of pyenv's."""
    made = subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True, check=False)
    return made.returncode == 0


def _main(versions: list[str]) -> str:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    for version in versions:
        python = find(version)
        if python is None:
            sys.exit(f"Python {version} is not here: install it beside the others, or by pyenv")
        return str(python)
    return " ".join(version for version in VERSIONS if version != own)


if __name__ == "__main__":
    print(_main(sys.argv[1:]))  # noqa: T201

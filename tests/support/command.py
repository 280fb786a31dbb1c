"""The real command, as a process."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from click import Context

from pglock_inspect.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Mapping

COMMAND = [sys.executable, "-m", "pglock_inspect"]

_ROOT = Path(__file__).parents[2]
_OURS = (
    "PG",
    "PGLOCK_",
    "DATABASE_URL",
    "COLUMNS",
    "LINES",
    "TERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "LC_",
    "LANG",
    "XDG_",
    "PYTHONIO",
)


def environment(home: Path, **variables: str) -> dict[str, str]:
    """An environment in which nothing but `variables` says anything to the command."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return kept | {"HOME": str(home), "LANG": "C.UTF-8", "PYTHONPATH": str(_ROOT)} | variables


def parse(line: str) -> None:
    """Parse a command of a page, up to what a shell does with its output. Raises `UsageError`."""
    _, *arguments = shlex.split(re.split(r" [|<>] ", line)[0], comments=True)
    with Context(app, **app.context_settings) as context:
        name, command, rest = app.resolve_command(context, arguments)
        assert command
        command.make_context(name, rest, parent=context)


class Pglock:
    """Runs `pglock-inspect` in a directory of its own, against one server unless told otherwise."""

    def __init__(self, directory: Path, dsn: str | None = None) -> None:
        self.directory = directory
        self.dsn = dsn

    def __call__(
        self,
        *arguments: str,
        code: int | None = 0,
        env: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> subprocess.CompletedProcess[str]:
        """Return how a run went, after checking its exit code and that there is no traceback."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env=self.environment(**env or {}),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
            timeout=60,
        )
        assert "Traceback" not in done.stderr
        assert code is None or done.returncode == code, (
            f"exit code {done.returncode}: {done.stderr}{done.stdout}"
        )
        return done

    def start(self, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start the command and return the process; the caller ends it."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.directory,
            env=self.environment(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def environment(self, **variables: str) -> dict[str, str]:
        dsn = {} if self.dsn is None else {"PGLOCK_DSN": self.dsn}
        return environment(self.directory, **dsn | variables)

"""A cold ``check`` process against a script that only fetches the rows, and what an import costs."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.bench_poll import ACTIVITY, LOCKS, Case, holders
from benchmarks.exporters import own_environment
from benchmarks.harness import Ratio, interleave
from pglock_inspect.demo.server import TemporaryServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SCRIPT = f"""
import sys
import psycopg
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute({LOCKS!r}).fetchall()
    connection.execute({ACTIVITY!r}).fetchall()
"""
_PAIRS = 31
_CASE = Case(20, 20)


def run() -> Iterator[Ratio]:
    command = Path(sys.executable).with_name("pglock-inspect")
    with TemporaryServer() as server, holders(_CASE, server.dsn()):
        check = partial(_run, [str(command), "check", "--dsn", server.dsn()])
        script = partial(_run, [sys.executable, "-c", _SCRIPT, server.dsn()])
        for warm_up in (check, script):
            warm_up()
        pairs = interleave(check, script, pairs=_PAIRS)
        yield pairs.ratio(str(_CASE), "cold check, as a process", 2.0)
    imports = [
        partial(_run, [sys.executable, "-c", f"import {name}"]) for name in ("pglock_inspect", "psycopg")
    ]
    for warm_up in imports:
        warm_up()
    yield interleave(*imports, pairs=_PAIRS).ratio("import pglock_inspect", "against import psycopg", 1.0)


def _run(command: Sequence[str]) -> None:
    ended = subprocess.run(command, capture_output=True, check=False, env=own_environment(), text=True)
    assert ended.returncode in {0, 1, 2}, ended.stderr
    assert not ended.stderr, ended.stderr

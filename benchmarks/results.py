"""The table as a page, with the machine and the day that the figures are from."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import shown
from pglock_inspect.demo.programs import find_bindir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.harness import Ratio

_INTRODUCTION = """\
# Results

What `make bench` measured; [README.md](README.md) says how, and what each benchmark compares with. Times of
one machine say little about another, ratios more.
"""


def page(ratios: Sequence[Ratio]) -> str:
    """Return the page, in Markdown."""
    return "\n".join([_INTRODUCTION, *_circumstances(), *_table(ratios), ""])


def _circumstances() -> Iterator[str]:
    postgres = subprocess.check_output([find_bindir() / "postgres", "--version"], text=True).strip()
    yield f"- {datetime.now(UTC):%Y-%m-%d}"
    yield f"- {_processor()}, {os.cpu_count()} cores; {platform.system()}"
    yield f"- {postgres}; Python {platform.python_version()}, psycopg {version('psycopg')}"
    yield ""


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _table(ratios: Sequence[Ratio]) -> Iterator[str]:
    yield "| | | ours | yardstick | ratio | at most | |"
    yield "|---|---|--:|--:|--:|--:|---|"
    for ratio in ratios:
        target = "" if ratio.target is None else f"{ratio.target:.2f}"
        ours, yardstick = (shown(value, ratio.unit) for value in (ratio.ours, ratio.yardstick))
        cells = (ratio.case, ratio.what, ours, yardstick, f"{ratio.ratio:.2f}", target, ratio.verdict)
        yield f"| {' | '.join(cells)} |"

"""One exporter for 200 targets, and whether the memory of watching grows."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from benchmarks.bench_poll import JOBS, Case, holders
from benchmarks.exporters import ours
from benchmarks.harness import Ratio, resident
from pglock_inspect.config import Settings
from pglock_inspect.demo.server import TemporaryServer
from pglock_inspect.serve.exposition import exposition, negotiate
from pglock_inspect.serve.target import Latest
from pglock_inspect.watch import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator

_TARGETS = 200
_SERVERS = 4
_INTERVAL = 5.0
_SCRAPED_EVERY = 15.0
_MEASURED = 60.0  # seconds
_CASE = Case(20, 20)
_POLLS = (2_000, 20_000)
_POLLS_PER_SCRAPE = 8  # as with 2 s and 15 s


def run() -> Iterator[Ratio]:
    yield _share_of_a_core()
    yield _memory()


def _share_of_a_core() -> Ratio:
    with ExitStack() as opened:
        servers = [opened.enter_context(TemporaryServer()) for _ in range(_SERVERS)]
        for server in servers:
            opened.enter_context(holders(_CASE, server.dsn()))
        targets = {f"server-{number}": servers[number % _SERVERS].dsn() for number in range(_TARGETS)}
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        exporter = opened.enter_context(ours(directory, _INTERVAL, targets, JOBS))
        while exporter.total("pglock_up{") < _TARGETS:
            time.sleep(0.5)
        time.sleep(2 * _INTERVAL)
        cpu, began = exporter.cpu(), time.perf_counter()
        for _ in range(round(_MEASURED / _SCRAPED_EVERY)):
            time.sleep(_SCRAPED_EVERY)
            exporter.scrape()
        cpu, seconds = exporter.cpu() - cpu, time.perf_counter() - began
        assert exporter.total("pglock_up{") == _TARGETS
        case = f"{_TARGETS} targets, one poll in {_INTERVAL:.0f} s"
        return Ratio(case, "CPU against that of a core", cpu, seconds, cpu / seconds, 0.25)


def _memory() -> Ratio:
    """Poll a server where a lock is released and another taken between any two polls; render some reports."""
    sizes = []
    settings = Settings(jobs=JOBS)
    with (
        TemporaryServer() as server,
        holders(_CASE, server.dsn()),
        psycopg.connect(server.dsn(), autocommit=True) as changing,
        Watcher(server.dsn(), settings) as watcher,
    ):
        for poll in range(1, _POLLS[-1] + 1):
            changing.execute("SELECT pg_advisory_unlock_all(), pg_advisory_lock(%s)", [1_000_000 + poll])
            latest = Latest(watcher.poll())
            assert latest.report.error is None, latest.report.error
            if poll % _POLLS_PER_SCRAPE == 0:
                exposition([latest], negotiate(""))
            if poll in _POLLS:
                sizes.append(resident())
    before, after = sizes
    case = "memory of watching a server"
    return Ratio(case, f"{_POLLS[1]:,} polls to {_POLLS[0]:,}", after, before, after / before, 1.05, "bytes")

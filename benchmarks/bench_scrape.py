"""Scraping ``/metrics``, and what it costs to watch, beside Debian's ``prometheus-postgres-exporter``.

All are processes, on one server at the same time. Ours polls about as often as it is scraped: few scrapes are
answered with what was made for an earlier one.
"""

from __future__ import annotations

import math
import random
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo

from benchmarks.bench_poll import ACTIVITY, JOBS, LARGE, LOCKS, Case, holders
from benchmarks.exporters import Debians, Exporter, ours
from benchmarks.harness import Ratio, process_cpu
from pglock_inspect.demo.server import TemporaryServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Connection = psycopg.Connection[Any]

CASES = tuple(Case(locks, 20, LARGE) for locks in (20, 1_000, 10_000, 100_000))
_INTERVAL = 0.5
_SCRAPES = 100
_POLLS = 30

OURS, INSTALLED, ONE_QUERY, PLAIN = "pglock-inspect", "as-installed", "one-query", "plain-query"
"""Also the names of their sessions."""


class Cpu(NamedTuple):
    """Seconds for one poll."""

    client: float
    server: float


def run(cases: Sequence[Case] = CASES) -> Iterator[Ratio]:
    with ExitStack() as opened:
        server = opened.enter_context(TemporaryServer(settings=LARGE))
        debians = opened.enter_context(Debians())
        directory = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        dsn = server.dsn()
        exporters = {
            OURS: opened.enter_context(ours(directory, _INTERVAL, {"server": dsn}, JOBS)),
            INSTALLED: opened.enter_context(debians.as_installed(dsn)),
            ONE_QUERY: opened.enter_context(debians.one_query(dsn)),
        }
        plain = opened.enter_context(
            psycopg.connect(make_conninfo(dsn, application_name=PLAIN), autocommit=True)
        )
        own = []
        for case in cases:
            with holders(case, dsn):
                _await(exporters, case.locks)
                latencies = _latencies(exporters)
                own.append(latencies[OURS])
                yield from _compare(case, latencies)
                yield from _costs(case, exporters, plain)
        for share in (50, 99):
            mine, theirs = percentile(own[-1], share), percentile(own[0], share)
            what = f"p{share}: with {cases[0].locks} locks"
            yield Ratio(str(cases[-1]), what, mine, theirs, mine / theirs, 1.5)


def percentile(seconds: Sequence[float], share: int) -> float:
    """Return the value that so many of a hundred do not exceed."""
    return sorted(seconds)[math.ceil(len(seconds) * share / 100) - 1]


def _await(exporters: Mapping[str, Exporter], locks: int) -> None:
    """Wait until all tell of the locks: at first, ours reads and names what later is only compared."""
    shown = {
        OURS: "pglock_locks{",
        INSTALLED: 'pg_locks_count{datname="postgres"',
        ONE_QUERY: "pg_advisory_locks_count{",
    }
    for name, exporter in exporters.items():
        while exporter.total(shown[name]) < locks:
            time.sleep(0.1)


def _latencies(exporters: Mapping[str, Exporter]) -> Mapping[str, Sequence[float]]:
    """Scrape them in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in exporters}
    for _ in range(_SCRAPES):
        time.sleep(_INTERVAL * random.uniform(0.8, 1.2))
        for name in random.sample([*exporters], len(exporters)):
            seconds[name].append(exporters[name].scrape())
    return seconds


def _compare(case: Case, latencies: Mapping[str, Sequence[float]]) -> Iterator[Ratio]:
    for other in (INSTALLED, ONE_QUERY):
        for share in (50, 99):
            mine, theirs = (percentile(latencies[name], share) for name in (OURS, other))
            target = 1.0 if other == INSTALLED or case.locks >= 1_000 else None
            yield Ratio(str(case), f"p{share}: {other}", mine, theirs, mine / theirs, target)


def _costs(case: Case, exporters: Mapping[str, Exporter], plain: Connection) -> Iterator[Ratio]:
    costs = {
        OURS: _cost_of_polls(exporters[OURS], plain),
        INSTALLED: _cost(exporters[INSTALLED].scrape, exporters[INSTALLED].cpu, plain, INSTALLED),
        ONE_QUERY: _cost(exporters[ONE_QUERY].scrape, exporters[ONE_QUERY].cpu, plain, ONE_QUERY),
        PLAIN: _cost(lambda: _fetch(plain), time.process_time, plain, PLAIN),
    }
    for other in (INSTALLED, ONE_QUERY, PLAIN):
        for who, mine, theirs in zip(("exporter", "server"), costs[OURS], costs[other], strict=True):
            yield Ratio(str(case), f"{who} CPU: {other}", mine, theirs, mine / theirs)


def _cost_of_polls(exporter: Exporter, connection: Connection) -> Cpu:
    """Scrape each report that there is in so many polls."""
    before, polls = Cpu(exporter.cpu(), _server_cpu(connection, OURS)), 0
    last = _polled_at(connection)
    while polls < _POLLS:
        time.sleep(_INTERVAL / 4)
        if (polled_at := _polled_at(connection)) not in {last, None}:
            exporter.scrape()
            last, polls = polled_at, polls + 1
    return Cpu(
        (exporter.cpu() - before.client) / polls, (_server_cpu(connection, OURS) - before.server) / polls
    )


def _polled_at(connection: Connection) -> object:
    """Return when the last poll of ours ended; None while there is one."""
    ended = "SELECT state_change FROM pg_stat_activity WHERE application_name = %s AND state = 'idle'"
    return (connection.execute(ended, [OURS]).fetchone() or [None])[0]


def _cost(poll: Callable[[], object], cpu: Callable[[], float], connection: Connection, name: str) -> Cpu:
    before = Cpu(cpu(), _server_cpu(connection, name))
    for _ in range(_POLLS):
        poll()
    after = Cpu(cpu(), _server_cpu(connection, name))
    return Cpu(*((then - now) / _POLLS for then, now in zip(after, before, strict=True)))


def _server_cpu(connection: Connection, name: str) -> float:
    """Return what the sessions of this name have cost the server."""
    time.sleep(0.01)  # what they do after their answer counts too
    sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
    return sum(process_cpu(pid) for (pid,) in connection.execute(sessions, [name]).fetchall())


def _fetch(connection: Connection) -> None:
    connection.execute(LOCKS).fetchall()
    connection.execute(ACTIVITY).fetchall()

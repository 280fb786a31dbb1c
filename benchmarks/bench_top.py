"""``top`` beside ``pg_activity``: two programs on terminals of the same size, on one server at the same time.

What compares best is pg_activity's view of sessions that block others (F3): it reads ``pg_locks`` too, though
it shows no advisory lock. As many sessions block others on a table as wait for an advisory lock.
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from benchmarks.bench_poll import LARGE, Case, holders
from benchmarks.bench_scrape import percentile
from benchmarks.harness import Pairs, Ratio, backend_cpu
from benchmarks.screens import Screen
from pglock_inspect.demo.server import TemporaryServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Connection = psycopg.Connection[Any]

CASES = tuple(Case(locks, 20, LARGE) for locks in (20, 1_000, 10_000, 100_000))
STARTS = CASES[:3]
KEYS = CASES[2]
REFRESHES = (1_000, 10_000)
_STARTS = 15
_WAITERS = 10
_BLOCKING_VIEW = b"\x1bOR"  # F3
_INTERVAL = 2.0  # that of both, unless they are told otherwise
_MEASURED = 30.0  # seconds
_SEEN = r"(?:worker|waiter|blocker)-\d"
_LEAST_REFRESHES = 4
_PRESSES = 304
_MOVES = (b"j", b"j", b"j", b"\x1b[6~", b"k", b"G", b"k", b"g")
_QUIET = 0.03  # seconds without output, after which a key is done
_REPAINT = 0.05  # seconds


class Program(NamedTuple):
    """How it is started, and what its session calls itself, which runs ``statement`` last in each refresh."""

    command: tuple[str, ...]
    application: str
    statement: str


class Cost(NamedTuple):
    """Seconds of CPU for one refresh."""

    client: float
    server: float


def run(
    cases: Sequence[Case] = CASES,
    starts: Sequence[Case] = STARTS,
    keys: Case = KEYS,
    refreshes: tuple[int, int] = REFRESHES,
) -> Iterator[Ratio]:
    with TemporaryServer(settings=LARGE) as server:
        dsn = server.dsn()
        for case in starts:
            with holders(case, dsn), _queues(case, dsn):
                yield _first_table(case, dsn)
        for case in cases:
            with holders(case, dsn), _queues(case, dsn):
                yield from _refresh(case, dsn)
        with holders(keys, dsn), _queues(keys, dsn):
            yield from _keys(keys, dsn)
        with holders(CASES[0], dsn):
            yield _memory(dsn, refreshes)


def _programs(dsn: str) -> tuple[Program, Program]:
    here = Path(sys.executable)
    return (
        Program(
            (str(here.with_name("pglock-inspect")), "top", "--dsn", dsn),
            "pglock-inspect",
            "%Every server process%",
        ),
        Program((str(here.parents[1] / "pg_activity/bin/pg_activity"), dsn), "pg_activity", "%sq.datname%"),
    )


def _first_table(case: Case, dsn: str) -> Ratio:
    """Time both from their start to the first row in the table."""
    start, other = (partial(_start, program) for program in _programs(dsn))
    for warm_up in (start, other):
        warm_up()
    pairs = [(start(), other()) if number % 2 else (other(), start())[::-1] for number in range(_STARTS)]
    target = 1.5 if case.locks <= 1_000 else None  # no first table of pg_activity reads locks
    return Pairs(*zip(*pairs, strict=True)).ratio(str(case), "first table", target)


def _start(program: Program) -> float:
    with Screen(program.command) as screen:
        return screen.wait_for(_SEEN) - screen.began


def _refresh(case: Case, dsn: str) -> Iterator[Ratio]:
    """Let both run side by side, and divide what they cost by how often they asked."""
    with ExitStack() as opened:
        watching = opened.enter_context(psycopg.connect(dsn, autocommit=True))
        programs = _programs(dsn)
        screens = [opened.enter_context(Screen(program.command)) for program in programs]
        for screen in screens:
            screen.wait_for(_SEEN)
        screens[1].press(_BLOCKING_VIEW, "blocker-", quiet=_QUIET)
        time.sleep(2 * _INTERVAL)
        ours, theirs = _costs(programs, screens, watching)
    target = 1.0 if case.locks >= 1_000 else 2.0
    yield _against(case, "CPU of a refresh", sum(ours), sum(theirs), target)
    yield _against(case, "of it the program's", ours.client, theirs.client)
    yield _against(case, "of it the server's", ours.server, theirs.server)


def _costs(programs: Sequence[Program], screens: Sequence[Screen], watching: Connection) -> tuple[Cost, Cost]:
    pids = [_pid(watching, program) for program in programs]
    seen: list[set[Any]] = [set() for _ in programs]
    before = [Cost(screen.cpu(), backend_cpu(pid)) for screen, pid in zip(screens, pids, strict=True)]
    until = time.perf_counter() + _MEASURED
    while time.perf_counter() < until or min(map(len, seen)) <= _LEAST_REFRESHES:
        for program, instants in zip(programs, seen, strict=True):
            instants.update(_refreshed_at(watching, program))
        time.sleep(_INTERVAL / 20)

    def cost(number: int) -> Cost:
        refreshes = len(seen[number]) - 1  # the first is the last one of before
        client = screens[number].cpu() - before[number].client
        server = backend_cpu(pids[number]) - before[number].server
        return Cost(client / refreshes, server / refreshes)

    return cost(0), cost(1)


def _pid(watching: Connection, program: Program) -> int:
    session = watching.execute(
        "SELECT pid FROM pg_stat_activity WHERE application_name = %s", [program.application]
    )
    [(pid,)] = session
    return int(pid)


def _refreshed_at(watching: Connection, program: Program) -> list[Any]:
    """Return when a program's last refresh began its last statement, once that has ended."""
    return watching.execute(
        """SELECT query_start FROM pg_stat_activity
           WHERE application_name = %s AND state <> 'active' AND query LIKE %s""",
        [program.application, program.statement],
    ).fetchall()


def _against(case: Case, what: str, ours: float, theirs: float, target: float | None = None) -> Ratio:
    return Ratio(str(case), what, ours, theirs, ours / theirs, target)


def _keys(case: Case, dsn: str) -> Iterator[Ratio]:
    """Press keys that move the selection, while polls go on; a key is done when nothing more is painted."""
    with Screen(_programs(dsn)[0].command) as screen:
        screen.wait_for(_SEEN)
        time.sleep(2 * _INTERVAL)
        position = rf"[0-9]+/{case.locks + _WAITERS} "
        seconds = [screen.press(key, position, quiet=_QUIET) for key in islice(cycle(_MOVES), _PRESSES)]
    for share in (50, 95):
        what = f"p{share}: key to repaint"
        yield _against(case, what, percentile(seconds, share), _REPAINT, 1.0)


def _memory(dsn: str, refreshes: tuple[int, int]) -> Ratio:
    """Refresh as fast as may be, where a lock is released and another taken before each poll."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "sizes"
        file.touch()
        command = (sys.executable, "-m", "benchmarks.soaked_top", dsn, str(file), *map(str, refreshes))
        with Screen(command) as screen:
            while len(sizes := file.read_text("ascii").split()) < len(refreshes):
                screen.check()
                time.sleep(0.5)
    before, after = map(int, sizes)
    what = f"{refreshes[1]:,} refreshes to {refreshes[0]:,}"
    return Ratio("memory of top", what, after, before, after / before, 1.05, "bytes")


@contextmanager
def _queues(case: Case, dsn: str) -> Iterator[None]:
    """Let sessions wait for some of the locks of a case; and one for a table, which others read."""
    each = case.locks // case.sessions
    with ExitStack() as opened:

        def connect(name: str) -> Connection:
            return opened.enter_context(closing(psycopg.connect(dsn, autocommit=True, application_name=name)))

        def wait(name: str, statement: str) -> None:
            waiter = connect(name)
            waiter.pgconn.send_query(statement.encode())
            opened.callback(waiter.cancel_safe)

        connect("owner").execute("CREATE TABLE IF NOT EXISTS wanted ()")
        for number in range(_WAITERS):
            connect(f"blocker-{number}").execute("BEGIN; LOCK TABLE wanted IN ACCESS SHARE MODE")
            wait(f"waiter-{number}", f"SELECT pg_advisory_lock({(case.sessions - number) * each})")
        wait(f"waiter-{_WAITERS}", "TRUNCATE wanted")
        yield

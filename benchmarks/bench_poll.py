"""A full report against fetching the same rows with psycopg, in one process.

The yardstick is what anybody would write: the advisory rows of ``pg_locks`` and the columns of
``pg_stat_activity`` that a report shows, as plain tuples. A report is that, decoded, named, timed and judged.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from benchmarks.harness import Pairs, Ratio, backend_cpu, interleave
from pglock_inspect.config import Settings
from pglock_inspect.demo.server import TemporaryServer
from pglock_inspect.model import Job
from pglock_inspect.watch import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Connection = psycopg.Connection[Any]

LOCKS = "SELECT pid, mode, granted, objid FROM pg_locks WHERE locktype = 'advisory'"
ACTIVITY = """SELECT pid, datname, usename, application_name, client_addr, client_port, state, backend_start,
                     xact_start, query_start, state_change, wait_event_type, wait_event, backend_type, query
              FROM pg_stat_activity"""
JOBS = tuple(Job(f"job-{number}") for number in range(20))

DEFAULT: Mapping[str, int] = {}
LARGE = {"max_locks_per_transaction": 1100}
MANY_SESSIONS = {"max_connections": 1100}


class Case(NamedTuple):
    """So many locks, spread over so many sessions, of which ``changing`` take another lock between polls."""

    locks: int
    sessions: int
    settings: Mapping[str, int] = DEFAULT
    changing: int = 0

    def __str__(self) -> str:
        sessions = f"{self.sessions:,} session{'s' if self.sessions > 1 else ''}"
        return f"{self.locks:,} locks, {sessions}" + (f", {self.changing} changing" if self.changing else "")

    @property
    def later_target(self) -> float:
        return 2.5 if self.locks < 1000 else 2.0

    @property
    def pairs(self) -> int:
        return 31 if self.locks >= 100_000 else 101 if self.locks >= 10_000 else 301


CASES = (
    Case(20, 1),
    Case(20, 20),
    Case(20, 20, changing=2),
    Case(1_000, 1),
    Case(1_000, 20),
    Case(1_000, 20, changing=2),
    Case(1_000, 1_000, MANY_SESSIONS),
    Case(1_000, 1_000, MANY_SESSIONS, changing=100),
    Case(10_000, 1, LARGE),
    Case(10_000, 20, LARGE),
    Case(10_000, 20, LARGE, changing=2),
    Case(100_000, 1, LARGE),
    Case(100_000, 20, LARGE),
    Case(100_000, 20, LARGE, changing=2),
)


def run(cases: Sequence[Case] = CASES) -> Iterator[Ratio]:
    for settings in (DEFAULT, MANY_SESSIONS, LARGE):
        chosen = [case for case in cases if case.settings == settings]
        if chosen:
            with TemporaryServer(settings=settings) as server:
                for case in chosen:
                    yield from _measure(case, server.dsn())


def _measure(case: Case, dsn: str) -> Iterator[Ratio]:
    settings = Settings(jobs=JOBS)
    with holders(case, dsn) as sessions, ExitStack() as opened:
        change = partial(_change, sessions[: case.changing], count(1))
        pairs = interleave(
            partial(_first_report, dsn, settings, opened),
            partial(_connect_and_fetch, dsn, opened),
            pairs=15,
            between=opened.close,
        )
        yield pairs.ratio(str(case), "first report, connecting", 4.0)

        yardstick = opened.enter_context(psycopg.connect(dsn, autocommit=True))
        watcher = opened.enter_context(Watcher(dsn, settings))
        fetch = partial(_fetch, yardstick)
        for _ in range(6):  # psycopg prepares a statement that it has seen five times
            change()
            fetch()
            report = watcher.poll()
        assert sum(total.held for total in report.totals.values()) == case.locks + case.changing
        pairs = interleave(watcher.poll, fetch, pairs=case.pairs, between=change)
        yield pairs.ratio(str(case), "later reports", case.later_target)

        assert watcher.reader
        cpu: tuple[list[float], list[float]] = [], []
        for _ in range(7):
            for seconds, pid, poll in (
                (cpu[0], watcher.reader.connection.info.backend_pid, watcher.poll),
                (cpu[1], yardstick.info.backend_pid, fetch),
            ):
                seconds.append(_server_cpu(pid, poll, change, polls=max(3, case.pairs // 10)))
        yield Pairs(*cpu).ratio(str(case), "CPU of the server", 1.3)


def _first_report(dsn: str, settings: Settings, opened: ExitStack) -> None:
    watcher = opened.enter_context(Watcher(dsn, settings))
    report = watcher.poll()
    assert report.error is None, report.error


def _connect_and_fetch(dsn: str, opened: ExitStack) -> None:
    _fetch(opened.enter_context(psycopg.connect(dsn, autocommit=True)))


def _server_cpu(pid: int, poll: Callable[[], object], change: Callable[[], object], *, polls: int) -> float:
    """Return the seconds of CPU that a poll costs the server's process."""
    before = backend_cpu(pid)
    for _ in range(polls):
        change()
        poll()
    return (backend_cpu(pid) - before) / polls


def _fetch(connection: Connection) -> tuple[list[Any], list[Any]]:
    return connection.execute(LOCKS).fetchall(), connection.execute(ACTIVITY).fetchall()


@contextmanager
def holders(case: Case, dsn: str) -> Iterator[Sequence[Connection]]:
    """Open the sessions of a case. The first half of the locks, as far as there are jobs, is named."""
    each = case.locks // case.sessions
    with ExitStack() as opened:
        sessions = []
        for number in range(case.sessions):
            holder = opened.enter_context(
                psycopg.connect(dsn, autocommit=True, application_name=f"worker-{number}")
            )
            first = number * each
            keys = f"generate_series({first + 1}, {first + each})"
            holder.execute(f"SELECT count(pg_advisory_lock(key)) FROM {keys} AS key")
            sessions.append(holder)
        for number, job in enumerate(JOBS[: case.locks // 2]):
            turn, session = divmod(number, case.sessions)
            unlock = f"SELECT pg_advisory_unlock({session * each + turn + 1})"
            sessions[session].execute(unlock.encode())
            sessions[session].execute("SELECT pg_advisory_lock(hashtext(%s))", [job.name])
        yield sessions


def _change(sessions: Sequence[Connection], numbers: Iterator[int]) -> None:
    """Let each of some sessions hold another lock than before."""
    for session in sessions:
        key = 1_000_000_000 + next(numbers)
        session.execute(
            "SELECT pg_advisory_unlock(%s) FROM pg_locks WHERE pid = pg_backend_pid() AND objid = %s",
            [key - len(sessions), key - len(sessions)],
        )
        session.execute("SELECT pg_advisory_lock(%s)", [key])

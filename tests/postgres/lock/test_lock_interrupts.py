"""Ctrl-C and cancellation at any moment: nothing stays locked, if need be at the price of the session."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from itertools import count
from linecache import getline
from timeit import timeit
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pglock_inspect import arun_with_lock, arun_with_xact_lock, run_with_lock, run_with_xact_lock
from tests.postgres.lock.conftest import advisory_locks, locked_by_hand
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from tests.support.servers import Connect, Connection

JOB = "send_daily_digest"
KEY = f"hashtext('{JOB}')"

both_kinds = pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])
waits = pytest.mark.parametrize("wait", [timedelta(), timedelta(seconds=5)], ids=["at once", "wait"])


def nothing_locked(janitor: Connection, after: str) -> None:
    wait_until(lambda: not advisory_locks(janitor), f"nothing is locked after {after}", timeout=5)


class InterruptAt:
    """Raises KeyboardInterrupt as the n-th line of the helper is reached.

    Not where a `with` statement lets go of a mutex: no signal comes between there. Nor as a lock is dropped:
    Python lets no exception out of that. Nor at a `return` in an exception's handler, where CPython would
    never free the exception if tracing raised another.
    """

    _SPARED = ("with self._connection.lock:", "return")

    def __init__(self, line: int) -> None:
        self._left = line

    def __enter__(self) -> None:
        self._before = sys.gettrace()
        sys.settrace(self._trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    @property
    def raised(self) -> bool:
        return self._left <= 0

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401
        path = frame.f_code.co_filename
        if "/pglock_inspect/lock/" not in path or "_release_dropped" in _functions(frame):
            return None
        if event == "line" and not getline(path, frame.f_lineno).strip().endswith(self._SPARED):
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt
        return self._trace


def _functions(frame: FrameType | None) -> Iterator[str]:
    while frame:
        yield frame.f_code.co_name
        frame = frame.f_back


@both_kinds
@waits
@pytest.mark.parametrize("autocommit", [True, False], ids=["autocommit", "transactions"])
def test_an_interrupt_at_any_line(
    dsn: str, janitor: Connection, *, xact: bool, wait: timedelta, autocommit: bool
) -> None:
    run = run_with_xact_lock if xact else run_with_lock
    conn = psycopg.connect(dsn, autocommit=autocommit)
    survived = 0
    for line in count(1):
        interrupt = InterruptAt(line)
        with suppress(KeyboardInterrupt), interrupt:
            run(conn, JOB, int, wait=wait)
        nothing_locked(janitor, f"an interrupt at line {line}")
        if not interrupt.raised:
            break
        if conn.closed:
            conn = psycopg.connect(dsn, autocommit=autocommit)
        else:
            survived += 1
            assert run(conn, JOB, int), line
    conn.close()
    assert line > 80  # there was something to interrupt
    assert survived > line / 2


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # psycopg's, of a new connection
@both_kinds
def test_an_interrupt_at_any_line_of_a_lock_with_its_own_connection(
    dsn: str, janitor: Connection, *, xact: bool
) -> None:
    run = run_with_xact_lock if xact else run_with_lock
    for line in count(1):
        interrupt = InterruptAt(line)
        with suppress(KeyboardInterrupt), interrupt:
            run(dsn, JOB, int)
        nothing_locked(janitor, f"an interrupt at line {line}")
        if not interrupt.raised:
            break
    assert line > 80


class Alarm:
    """Raises KeyboardInterrupt in a call of the helper after so many seconds, and again, at most thrice.

    Not while psycopg logs: `logging` would keep its mutex, and whichever thread logs next would hang.
    """

    def set(self, seconds: float) -> None:
        self._left, self._seconds = 3, seconds
        signal.setitimer(signal.ITIMER_REAL, seconds)

    def strike(self, _: int, frame: FrameType | None) -> None:
        running = {*_functions(frame)}
        if running.isdisjoint({"run_with_lock", "run_with_xact_lock"}):
            return
        if "_log" in running or "isEnabledFor" in running:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
            return
        self._left -= 1
        if self._left:
            signal.setitimer(signal.ITIMER_REAL, self._seconds)
        raise KeyboardInterrupt

    def off(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    alarm = Alarm()
    before = signal.signal(signal.SIGALRM, alarm.strike)
    yield alarm
    alarm.off()
    signal.signal(signal.SIGALRM, before)


@both_kinds
def test_interrupts_again_and_again(dsn: str, janitor: Connection, alarm: Alarm, *, xact: bool) -> None:
    """The second and the third strike while the first is being dealt with."""
    run = run_with_xact_lock if xact else run_with_lock
    chance = random.Random(7)
    conn = psycopg.connect(dsn)
    usual = timeit(lambda: run(conn, JOB, int), number=50) / 50
    outcomes = Counter[str]()
    for round_ in range(400):
        try:
            alarm.set(usual * 10 ** chance.uniform(-1.5, 1))
            run(conn, JOB, int)
            outcomes["done"] += 1
        except KeyboardInterrupt:
            outcomes["interrupted"] += 1
        alarm.off()
        nothing_locked(janitor, f"round {round_}")
        if conn.closed:
            outcomes["session ended"] += 1
            conn = psycopg.connect(dsn)
    conn.close()
    assert min(outcomes["done"], outcomes["interrupted"]) > 20, outcomes


@both_kinds
def test_an_interrupt_ends_a_wait(
    dsn: str, janitor: Connection, connect: Connect, alarm: Alarm, *, xact: bool
) -> None:
    run = run_with_xact_lock if xact else run_with_lock
    with locked_by_hand(connect(), KEY), psycopg.connect(dsn) as conn:
        started = time.monotonic()
        alarm.set(0.5)
        with pytest.raises(KeyboardInterrupt):
            run(conn, JOB, int, wait=timedelta(seconds=60))
        alarm.off()
        assert time.monotonic() - started < 5
        assert janitor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,)


class TestACancelledTask:
    @both_kinds
    @waits
    async def test_at_any_turn_of_the_loop(
        self, dsn: str, janitor: Connection, *, xact: bool, wait: timedelta
    ) -> None:
        run = arun_with_xact_lock if xact else arun_with_lock
        conn = await psycopg.AsyncConnection.connect(dsn)
        completed = turns = 0
        while completed < 3:
            task = asyncio.create_task(run(conn, JOB, noop, wait=wait))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                completed += await task
            nothing_locked(janitor, f"a cancellation at turn {turns}")
            assert not conn.closed
            assert await run(conn, JOB, noop)
            turns += 1 + turns // 20  # a server that is far away takes thousands
        await conn.close()
        assert turns > 5  # there was something to cancel

    @both_kinds
    async def test_in_a_wait(self, dsn: str, janitor: Connection, connect: Connect, *, xact: bool) -> None:
        run = arun_with_xact_lock if xact else arun_with_lock
        conn = await psycopg.AsyncConnection.connect(dsn)
        with locked_by_hand(connect(), KEY):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await run(conn, JOB, noop, wait=timedelta(seconds=60))
            assert janitor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (0,)
        assert await run(conn, JOB, noop)
        await conn.close()

    @both_kinds
    async def test_in_the_job(self, dsn: str, janitor: Connection, *, xact: bool) -> None:
        run = arun_with_xact_lock if xact else arun_with_lock
        conn = await psycopg.AsyncConnection.connect(dsn, autocommit=not xact)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await run(conn, JOB, lambda: conn.execute("SELECT pg_sleep(60)"))
        assert advisory_locks(janitor) == []
        assert await run(conn, JOB, noop)
        await conn.close()


async def noop() -> None: ...

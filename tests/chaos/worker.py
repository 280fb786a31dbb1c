"""A process that tries for the job again and again, with a sync or async lock of one kind.

It says "ready" once signals are welcome, and "idle" when the chaos is over: it then keeps its session open
until its standard input ends. SIGINT is Ctrl-C; SIGUSR1 cancels the task of an async worker.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import sys
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import make_conninfo

from pglock_inspect import (
    LockLost,
    LockTimeout,
    arun_with_lock,
    arun_with_xact_lock,
    run_with_lock,
    run_with_xact_lock,
)
from pglock_inspect.lock import AsyncLock, Lock, base
from tests.chaos.witness import BEAT, DEADLINE, JOB, LEASE, STEP, Run, conclude, connect, say

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEFT = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"


class Worker(ABC):
    """Ends after some attempts, for another kind to take its place. `life` begins its sessions' names."""

    connection: Any = None  # the borrowed one
    run: Run | None = None

    def __init__(self, dsn: str, witness_dsn: str, kind: str, life: str) -> None:
        self.dsn, self.witness_dsn, self.kind, self.life = dsn, witness_dsn, kind, life
        self.chance = random.Random(life)
        _, ownership, level = kind.split()
        self.owned, self.xact = ownership == "owned", level == "xact"
        self.autocommit = self.chance.random() < 0.5
        self.witness = connect(witness_dsn)
        self.session = ""

    def work(self) -> None:
        self._compete()
        # From here on nobody handles a signal, which would kill.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGUSR1})

    def _compete(self) -> None:
        for attempt in range(self.chance.randint(20, 60)):
            if self.witness.execute("SELECT over FROM control").fetchone() == (True,):
                say("idle")
                sys.stdin.read()
                return
            if self.owned or self.connection is None or self.connection.closed:
                self.session = f"{self.life}.{attempt}"
            self.run, self.lost = None, ""
            outcome = self._attempt()
            conclude(self.witness, self.session, outcome)
            if self.connection and not self.connection.closed:
                self._see_that_nothing_is_left()
            time.sleep(self.chance.uniform(0, 0.1))

    def _attempt(self) -> str:
        try:
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                granted = self._try_once(timedelta(seconds=max(0, self.chance.uniform(-1, 2))))
            finally:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
        except KeyboardInterrupt as interrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.witness = connect(self.witness_dsn)  # it may have been in the midst of something
            return f"interrupted{_note(interrupt)}"
        except asyncio.CancelledError as cancelled:
            return f"cancelled{_note(cancelled)}"
        except LockLost:
            return self.lost or "lost: told at release"
        except (psycopg.Error, LockTimeout) as error:  # as long as the lock is not granted
            return f"raised {type(error).__name__}"
        return "done" if granted else "busy"

    @abstractmethod
    def _try_once(self, wait: timedelta) -> bool:
        """Return whether the lock was granted."""

    @abstractmethod
    def _see_that_nothing_is_left(self) -> None:
        """Fail if the borrowed connection, which lives on, holds a lock."""

    def _conninfo(self) -> str:
        return make_conninfo(self.dsn, application_name=self.session)

    def _options(self) -> dict[str, Any]:
        """Of a lock in a `with` block."""
        owned = {"lease": LEASE, "on_lost": self._on_lost} if self.owned else {}
        return {"transaction": self.xact, **owned}

    def _begin(self) -> Run:
        self.run = Run(self.witness, self.kind, self.session, self.chance.randint(1, 8))
        if self.lost:
            self.run.tell()
        return self.run

    def _on_lost(self, _: LockLost) -> None:
        self.lost = "lost: told by on_lost"
        if self.run:
            self.run.tell()

    def _checks(self) -> bool:
        return not self.owned and self.chance.random() < 0.1

    @contextmanager
    def _checking(self) -> Iterator[None]:
        try:
            yield
        except LockLost:
            self.lost = "lost: told at check"
            raise


class SyncWorker(Worker):
    def _try_once(self, wait: timedelta) -> bool:
        if self.owned:
            target: Any = self._conninfo()
        else:
            if self.connection is None or self.connection.closed:
                self.connection = psycopg.connect(self._conninfo(), autocommit=self.autocommit)
            target = self.connection
            if self.chance.random() < 0.5:
                run_job = run_with_xact_lock if self.xact else run_with_lock
                return run_job(target, JOB, self._job, wait=wait)
        with Lock(target, JOB, wait=wait, **self._options()) as lock:
            if lock.granted:
                self._job(lock)
        return lock.granted

    def _job(self, lock: Lock | None = None) -> None:
        run = self._begin()
        while run.goes_on():
            time.sleep(STEP)
            if lock and self._checks():
                with self._checking():
                    lock.check()
        run.end()

    def _see_that_nothing_is_left(self) -> None:
        try:
            left = self.connection.execute(_LEFT).fetchone()
            self.connection.rollback()
        except psycopg.Error:
            self.connection.close()
        else:
            assert left == (0,), f"{self.session} still holds {left}"


class AsyncWorker(Worker):
    task: asyncio.Task[Any] | None = None

    def work(self) -> None:
        with asyncio.Runner() as self.runner:
            self.runner.get_loop().add_signal_handler(signal.SIGUSR1, self._cancel)
            super().work()

    def _cancel(self) -> None:
        if self.task:
            self.task.cancel()

    def _try_once(self, wait: timedelta) -> bool:
        try:
            return self.runner.run(self._atry_once(wait))
        except KeyboardInterrupt:  # a second one leaves the task where it is
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            self.runner.run(self._wind_up())
            raise

    async def _wind_up(self) -> None:
        """Cancel all tasks, as asyncio does before it lets an interrupt end the program."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _atry_once(self, wait: timedelta) -> bool:
        self.task = asyncio.current_task()
        if self.owned:
            target: Any = self._conninfo()
        else:
            if self.connection is None or self.connection.closed:
                connect = psycopg.AsyncConnection.connect
                self.connection = await connect(self._conninfo(), autocommit=self.autocommit)
            target = self.connection
            if self.chance.random() < 0.5:
                run_job = arun_with_xact_lock if self.xact else arun_with_lock
                return await run_job(target, JOB, self._job, wait=wait)
        async with AsyncLock(target, JOB, wait=wait, **self._options()) as lock:
            if lock.granted:
                await self._job(lock)
        return lock.granted

    async def _job(self, lock: AsyncLock | None = None) -> None:
        run = self._begin()
        while run.goes_on():
            await asyncio.sleep(STEP)
            if lock and self._checks():
                with self._checking():
                    await lock.check()
        run.end()

    def _see_that_nothing_is_left(self) -> None:
        self.runner.run(self._asee_that_nothing_is_left())

    async def _asee_that_nothing_is_left(self) -> None:
        try:
            left = await (await self.connection.execute(_LEFT)).fetchone()
            await self.connection.rollback()
        except psycopg.Error:
            await self.connection.close()
        else:
            assert left == (0,), f"{self.session} still holds {left}"


def _note(error: BaseException) -> str:
    """Return what the helper noted about the lock on an error that is not its own."""
    lost = any("was lost" in note for note in getattr(error, "__notes__", []))
    return ", lost: told in a note" if lost else ""


def main(dsn: str, witness_dsn: str, kind: str, life: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    logging.getLogger("psycopg").disabled = True  # an interrupt would leave its mutex locked for all threads
    base.BEAT, base.DEADLINE = BEAT, DEADLINE
    worker = (AsyncWorker if kind.startswith("async") else SyncWorker)(dsn, witness_dsn, kind, life)
    say("ready")
    worker.work()


if __name__ == "__main__":
    main(*sys.argv[1:])

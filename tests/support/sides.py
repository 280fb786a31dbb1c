"""The lock helper with a `Connection` and with an `AsyncConnection`, so that one test tries both."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import psycopg

import pglock_inspect as pglock

if TYPE_CHECKING:
    from pglock_inspect.lock.base import Options

Conn = Any  # of the side's type
Step = Any  # a callable that gets a connection or a lock, and may return an awaitable
Target = Any
Given = Any  # to psycopg's connect()


def query(statement: str, into: list[Any]) -> Step:
    """Return a step that appends the first row of a query on the connection."""

    def step(conn: Conn) -> object:
        if isinstance(conn, psycopg.Connection):
            into.append(conn.execute(statement.encode()).fetchone())
            return None

        async def fetch() -> None:
            into.append(await (await conn.execute(statement.encode())).fetchone())

        return fetch()

    return step


class Side(Protocol):
    """Sync or async. Jobs and blocks are steps, such as `lambda conn: conn.execute("…")`."""

    def connect(self, dsn: str, **options: Given) -> Conn: ...

    def do(self, target: Target, *steps: Step) -> Target:
        """Run steps, and return what the last one does."""

    def run(
        self, conn: Conn | str, name: str, *job: Step, xact: bool = False, **options: Unpack[Options]
    ) -> bool: ...

    def hold(self, conn: Conn | str, name: str, *block: Step, **options: Unpack[Options]) -> bool:
        """Run the steps of a `try_lock` block, which get the lock; return whether it was granted."""

    def close(self) -> None: ...


class Sync:
    def __init__(self) -> None:
        self._opened: list[psycopg.Connection[Any]] = []

    def connect(self, dsn: str, **options: Given) -> psycopg.Connection[Any]:
        self._opened.append(psycopg.connect(dsn, **options))
        return self._opened[-1]

    def do(self, target: Target, *steps: Step) -> Target:
        result = None
        for step in steps:
            result = step(target)
        return result

    def run(self, conn: Conn, name: str, *job: Step, xact: bool = False, **options: Unpack[Options]) -> bool:
        run = pglock.run_with_xact_lock if xact else pglock.run_with_lock
        return run(conn, name, lambda: self.do(conn, *job), **options)

    def hold(self, conn: Conn, name: str, *block: Step, **options: Unpack[Options]) -> bool:
        with pglock.try_lock(conn, name, **options) as lock:
            self.do(lock, *block)
        return lock.granted

    def close(self) -> None:
        for connection in self._opened:
            connection.close()


class Async:
    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._opened: list[psycopg.AsyncConnection[Any]] = []

    def connect(self, dsn: str, **options: Given) -> psycopg.AsyncConnection[Any]:
        self._opened.append(self._runner.run(psycopg.AsyncConnection.connect(dsn, **options)))
        return self._opened[-1]

    def do(self, target: Target, *steps: Step) -> Target:
        return self._runner.run(self._do(target, *steps))

    async def _do(self, target: Target, *steps: Step) -> Target:
        result = None
        for step in steps:
            result = step(target)
            if isawaitable(result):
                result = await result
        return result

    def run(self, conn: Conn, name: str, *job: Step, xact: bool = False, **options: Unpack[Options]) -> bool:
        run = pglock.arun_with_xact_lock if xact else pglock.arun_with_lock
        return self._runner.run(run(conn, name, lambda: self._do(conn, *job), **options))

    def hold(self, conn: Conn, name: str, *block: Step, **options: Unpack[Options]) -> bool:
        async def hold() -> bool:
            async with pglock.atry_lock(conn, name, **options) as lock:
                await self._do(lock, *block)
            return lock.granted

        return self._runner.run(hold())

    def close(self) -> None:
        for connection in self._opened:
            self._runner.run(connection.close())
        self._runner.close()

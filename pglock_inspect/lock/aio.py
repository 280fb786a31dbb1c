"""The lock helper for `psycopg.AsyncConnection`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, Unpack

import psycopg

from pglock_inspect.lock.base import TICK, BaseLock, Flow, Options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from psycopg.abc import PQGen

Connection = psycopg.AsyncConnection[Any]


class AsyncLock(BaseLock):
    """The context manager that `atry_lock` returns."""

    _kind = psycopg.AsyncConnection
    _watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._drive(self._enter())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._drive(self._exit(error))

    async def check(self) -> None:
        """Raise LockLost unless the lock is held, in one round trip; LockTimeout where it never was."""
        await self._drive(self._check())

    async def _drive(self, flow: Flow) -> None:
        try:
            step = next(flow)
            while True:
                try:
                    answer = await step()
                except BaseException as error:  # noqa: BLE001  (the flow raises it again)
                    step = flow.throw(error)
                else:
                    step = flow.send(answer)
        except StopIteration:
            return

    async def _ask(self, question: PQGen[Any]) -> Any:  # noqa: ANN401
        async with self._connection.lock:
            return await self._connection.wait(question)

    def _start_watch(self) -> None:
        self._released = asyncio.Event()
        self._watch = asyncio.create_task(self._drive(self._keep_watch()))

    async def _pause(self) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._released.wait(), TICK)
        return self._released.is_set()

    async def _stop_watch(self) -> None:
        if self._watch:
            self._released.set()
            await asyncio.wait([self._watch])
            self._watch = None


def atry_lock(conn: Connection | str, name: str, **options: Unpack[Options]) -> AsyncLock:
    """`try_lock` for an `AsyncConnection` or a connection string.

    async with atry_lock(conn, "send_daily_digest", wait=timedelta(seconds=5)) as lock:
        if lock:
            await send_digest()
    """
    return AsyncLock(conn, name, **options)


async def arun_with_lock(
    conn: Connection | str, name: str, job: Callable[[], Awaitable[object]], **options: Unpack[Options]
) -> bool:
    """`run_with_lock` for an `AsyncConnection` or a connection string.

    if not await arun_with_lock("service=app", "send_daily_digest", send_digest):
        print("another replica does it")
    """
    return await _run(AsyncLock(conn, name, **options), job)


async def arun_with_xact_lock(
    conn: Connection | str, name: str, job: Callable[[], Awaitable[object]], **options: Unpack[Options]
) -> bool:
    """`run_with_xact_lock` for an `AsyncConnection` or a connection string.

    await arun_with_xact_lock(conn, "close_the_books", lambda: close_books(conn))
    """
    return await _run(AsyncLock(conn, name, transaction=True, **options), job)


async def _run(lock: AsyncLock, job: Callable[[], Awaitable[object]]) -> bool:
    async with lock:
        if lock:
            await job()
    return lock.granted

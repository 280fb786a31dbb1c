"""The lock helper for `psycopg.AsyncConnection`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import ref

import psycopg

from pglock_inspect.lock.base import TICK, BaseLock, Options, watch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg.abc import PQGen

    Job = Callable[[], Awaitable[object]]

Connection = psycopg.AsyncConnection[Any]


class AsyncLock(BaseLock):
    """The context manager that `atry_lock` returns."""

    _kind = psycopg.AsyncConnection

    async def __aenter__(self) -> Self:
        await self._enter()
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: object) -> None:
        await self._exit(error)

    async def check(self) -> None:
        """Raise LockLost unless the lock is held, in one round trip; LockTimeout where it never was."""
        await self._check()

    async def _call(self, step: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        return await step()

    async def _ask(self, question: PQGen[Any]) -> Any:  # noqa: ANN401
        async with self._connection.lock:
            return await self._connection.wait(question)

    def _start_watch(self) -> None:
        self._released = asyncio.Event()
        pause = partial(_pause, self._released)
        self._watch = asyncio.create_task(watch(ref(self), self._connection.pgconn.socket, pause))

    async def _stop_watch(self) -> None:
        self._released.set()
        await asyncio.wait([self._watch])


async def _pause(released: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(released.wait(), TICK)
    return released.is_set()


def atry_lock(conn: Connection | str, name: str, **options: Unpack[Options]) -> AsyncLock:
    """`try_lock` for an `AsyncConnection` or a connection string.

    async with atry_lock(conn, "send_daily_digest", wait=timedelta(seconds=5)) as lock:
        if lock:
            await send_digest()
    """
    return AsyncLock(conn, name, **options)


async def arun_with_lock(conn: Connection | str, name: str, job: Job, **options: Unpack[Options]) -> bool:
    """`run_with_lock` for an `AsyncConnection` or a connection string.

    if not await arun_with_lock("service=app", "send_daily_digest", send_digest):
        print("another replica does it")
    """
    return await _run(AsyncLock(conn, name, **options), job)


async def arun_with_xact_lock(
    conn: Connection | str, name: str, job: Job, **options: Unpack[Options]
) -> bool:
    """`run_with_xact_lock` for an `AsyncConnection` or a connection string.

    await arun_with_xact_lock(conn, "close_the_books", lambda: close_books(conn))
    """
    return await _run(AsyncLock(conn, name, transaction=True, **options), job)


async def _run(lock: AsyncLock, job: Job) -> bool:
    async with lock:
        if lock:
            await job()
    return lock.granted

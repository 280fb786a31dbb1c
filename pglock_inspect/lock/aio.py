"""The lock helper for `psycopg.AsyncConnection`."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import ref

import psycopg

from pglock_inspect.lock.base import TICK, BaseLock, Flow, Options, Resume, watch

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
        await _drive(self._enter())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _drive(self._exit(error))

    async def check(self) -> None:
        """Raise LockLost unless the lock is held, in one round trip; LockTimeout where it never was."""
        await _drive(self._check())

    async def _ask(self, question: PQGen[Any]) -> Any:  # noqa: ANN401
        async with self._connection.lock:
            return await self._connection.wait(question)

    def _start_watch(self) -> None:
        self._released = asyncio.Event()
        self._watch = asyncio.create_task(_drive(watch(ref(self), partial(_pause, self._released))))

    async def _stop_watch(self) -> None:
        if self._watch:
            self._released.set()
            await asyncio.wait([self._watch])
            self._watch = None


async def _drive(flow: Flow) -> None:
    resume: Resume = flow.send
    value = None
    try:
        while True:
            try:
                step = resume(value)
                resume, value = flow.send, await step()
            except StopIteration:
                return
            except BaseException as error:
                if getgeneratorstate(flow) == GEN_CLOSED:  # by this very error
                    raise
                resume, value = flow.throw, error
    finally:
        value = None  # which may be the error, whose traceback leads here
        flow.close()


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

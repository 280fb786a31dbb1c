"""The lock helper for `psycopg.Connection`."""

from __future__ import annotations

from functools import partial
from inspect import iscoroutine, isgenerator
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import ref

import psycopg

from pglock_inspect.lock.base import TICK, BaseLock, Options, watch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from psycopg.abc import PQGen

    Job = Callable[[], object]

Connection = psycopg.Connection[Any]


class Lock(BaseLock):
    """The context manager that `try_lock` returns."""

    _kind = psycopg.Connection

    def __enter__(self) -> Self:
        _complete(self._enter)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        _complete(lambda: self._exit(error))

    def check(self) -> None:
        """Raise LockLost unless the lock is held, in one round trip; LockTimeout where it never was."""
        _complete(self._check)

    async def _call(self, step: Callable[[], Any]) -> Any:  # noqa: ANN401
        return step()

    async def _ask(self, question: PQGen[Any]) -> Any:  # noqa: ANN401
        with self._connection.lock:
            return self._connection.wait(question)

    def _start_watch(self) -> None:
        self._released = Event()
        pause = partial(_pause, self._released)
        watching = partial(watch, ref(self), self._connection.pgconn.socket, pause)
        self._watch = Thread(target=_complete, args=[watching], daemon=True)
        self._watch.start()

    async def _stop_watch(self) -> None:
        self._released.set()
        self._watch.join()


def _complete(flow: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine that is never suspended."""
    try:
        flow().send(None)  # at once: of one that is interrupted before it has begun, Python would complain
    except StopIteration:
        return


async def _pause(released: Event) -> bool:
    return released.wait(TICK)


def try_lock(conn: Connection | str, name: str, **options: Unpack[Options]) -> Lock:
    """Return a context manager that holds a session-level lock during its block, if it is to be had.

        with try_lock(conn, "send_daily_digest", wait=timedelta(seconds=5)) as lock:
            if lock:
                send_digest()

    `conn` is a psycopg connection in no transaction; or a connection string, and the lock has a connection of
    its own, which the server ends when it has heard nothing for 30 s. `lock.check()` proves that it is held.

    Raises NotAPsycopgConnection, InTransaction, AlreadyHeld, UsedAfterFork, PoolerDetected, LockTimeout where
    the wait is cut short, UnknownScheme, UnhashableName and psycopg's errors before the block, with nothing
    locked; LockLost and UncommittedWork after it, or as a note on what the block itself raises.
    """
    return Lock(conn, name, **options)


def run_with_lock(conn: Connection | str, name: str, job: Job, **options: Unpack[Options]) -> bool:
    """Run the job under a session-level lock, or return False where another session holds that.

        if not run_with_lock("service=app", "send_daily_digest", send_digest):
            print("another replica does it")

    Arguments and errors are those of `try_lock`. What the job raises comes out as it is.
    """
    return _run(Lock(conn, name, **options), job)


def run_with_xact_lock(conn: Connection | str, name: str, job: Job, **options: Unpack[Options]) -> bool:
    """Run the job in a transaction that holds the lock, and commit; also through a transaction pooler.

        run_with_xact_lock(conn, "close_the_books", lambda: close_books(conn))

    A job that raises is rolled back; one that ends the transaction itself, or goes on in an aborted one, has
    lost the lock: LockLost. All else is as in `run_with_lock`.
    """
    return _run(Lock(conn, name, transaction=True, **options), job)


def _run(lock: Lock, job: Job) -> bool:
    with lock:
        result = job() if lock else None
        if iscoroutine(result) or isgenerator(result):
            result.close()
            kind = "coroutine function: use arun_with_lock()" if iscoroutine(result) else "generator function"
            raise TypeError(f"the job of {lock.name!r} has not run, since it is a {kind}")
    return lock.granted

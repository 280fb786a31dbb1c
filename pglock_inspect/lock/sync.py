"""The lock helper for `psycopg.Connection`."""

from __future__ import annotations

from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate, iscoroutine, isgenerator
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self, Unpack
from weakref import ref

import psycopg

from pglock_inspect.lock.base import TICK, BaseLock, Flow, Options, Resume, watch

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from psycopg.abc import PQGen

Connection = psycopg.Connection[Any]


class Lock(BaseLock):
    """The context manager that `try_lock` returns."""

    _kind = psycopg.Connection
    _watch: Thread | None = None

    def __enter__(self) -> Self:
        _drive(self._enter())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _drive(self._exit(error))

    def check(self) -> None:
        """Raise LockLost unless the lock is held, in one round trip; LockTimeout where it never was."""
        _drive(self._check())

    def _ask(self, question: PQGen[Any]) -> Any:  # noqa: ANN401
        with self._connection.lock:
            return self._connection.wait(question)

    def _start_watch(self) -> None:
        self._released = Event()
        watching = watch(ref(self), partial(self._released.wait, TICK))
        self._watch = Thread(target=_drive, args=[watching], daemon=True)
        self._watch.start()

    def _stop_watch(self) -> None:
        if self._watch:
            self._released.set()
            self._watch.join()
            self._watch = None


def _drive(flow: Flow) -> None:
    resume: Resume = flow.send
    value = None
    try:
        while True:
            try:
                step = resume(value)
                resume, value = flow.send, step()
            except StopIteration:
                return
            except BaseException as error:
                if getgeneratorstate(flow) == GEN_CLOSED:  # by this very error
                    raise
                resume, value = flow.throw, error
    finally:
        value = None  # which may be the error, whose traceback leads here
        flow.close()


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


def run_with_lock(
    conn: Connection | str, name: str, job: Callable[[], object], **options: Unpack[Options]
) -> bool:
    """Run the job under a session-level lock, or return False where another session holds that.

        if not run_with_lock("service=app", "send_daily_digest", send_digest):
            print("another replica does it")

    Arguments and errors are those of `try_lock`. What the job raises comes out as it is.
    """
    return _run(Lock(conn, name, **options), job)


def run_with_xact_lock(
    conn: Connection | str, name: str, job: Callable[[], object], **options: Unpack[Options]
) -> bool:
    """Run the job in a transaction that holds the lock, and commit; also through a transaction pooler.

        run_with_xact_lock(conn, "close_the_books", lambda: close_books(conn))

    A job that raises is rolled back; one that ends the transaction itself, or goes on in an aborted one, has
    lost the lock: LockLost. All else is as in `run_with_lock`.
    """
    return _run(Lock(conn, name, transaction=True, **options), job)


def _run(lock: Lock, job: Callable[[], object]) -> bool:
    with lock:
        result = job() if lock else None
        if iscoroutine(result) or isgenerator(result):
            result.close()
            kind = "coroutine function: use arun_with_lock()" if iscoroutine(result) else "generator function"
            raise TypeError(f"the job of {lock.name!r} has not run, since it is a {kind}")
    return lock.granted

"""Taking and releasing a lock, against two raw statements on the same connection and against other helpers.

Client and server share one core, so that their ratio does not depend on how the kernel spreads them (Linux).
A helper that is not installed, or not to be had for this Python, is left out by name.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from benchmarks.harness import Pairs, Ratio, interleave
from pglock_inspect import arun_with_lock, run_with_lock, run_with_xact_lock
from pglock_inspect.demo.server import TemporaryServer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from contextlib import AbstractContextManager

    Connection = psycopg.Connection[Any]
    Run = Callable[[], object]

C = TypeVar("C", psycopg.Connection[Any], psycopg.AsyncConnection[Any])

JOB = "send_daily_digest"
KEY = -1957215242  # hashtext of it
IN_A_BLOCK = 20
BLOCKS = 201


def run() -> Iterator[Ratio]:
    with (
        TemporaryServer() as server,
        one_core(),
        psycopg.connect(server.dsn(), autocommit=True) as autocommit,
        psycopg.connect(server.dsn()) as transactional,
        asyncio.Runner() as runner,
    ):
        conn, in_transactions = pin(autocommit), pin(transactional)
        ours, raw = partial(run_with_lock, conn, JOB, nothing), partial(two_statements, conn)
        yield compare(ours, raw).ratio("lock", "two raw statements", 1.15)
        yield compare(partial(ours, stamp=False), raw).ratio("lock", "the same, without a stamp")
        xact = partial(run_with_xact_lock, in_transactions, JOB, nothing)
        yield compare(xact, partial(one_transaction, in_transactions)).ratio(
            "lock", "xact: a raw transaction"
        )
        for name, peer in PEERS.items():
            try:
                with peer(server.dsn(), conn) as theirs:
                    yield compare(ours, theirs).ratio("lock", name, 1.0)
            except ImportError as error:
                leave_out(name, error)
        yield from run_async(server.dsn(), runner)


def run_async(dsn: str, runner: asyncio.Runner) -> Iterator[Ratio]:
    conn = pin(runner.run(psycopg.AsyncConnection.connect(dsn, autocommit=True)))

    def blocks(work: Callable[[], Awaitable[object]]) -> Run:
        async def block() -> None:
            for _ in range(IN_A_BLOCK):
                await work()

        return lambda: runner.run(block())

    async def raw() -> None:
        await (await conn.execute("SELECT pg_try_advisory_lock(%s)", [KEY])).fetchone()
        await (await conn.execute("SELECT pg_advisory_unlock(%s)", [KEY])).fetchone()

    ours = blocks(partial(arun_with_lock, conn, JOB, nothing_async))
    yield in_turns(ours, blocks(raw)).ratio("lock, async", "two raw statements", 1.15)
    try:
        from psycopg_toolbox import obtain_advisory_lock  # noqa: PLC0415
    except ImportError as error:
        leave_out("psycopg-toolbox", error)
    else:

        async def toolbox() -> None:
            async with obtain_advisory_lock(conn, JOB):
                pass

        yield in_turns(ours, blocks(toolbox)).ratio("lock, async", "psycopg-toolbox", 1.0)
    runner.run(conn.close())


def nothing() -> None:
    """Be the job."""


async def nothing_async() -> None:
    """Be the job."""


def two_statements(conn: Connection) -> None:
    conn.execute("SELECT pg_try_advisory_lock(%s)", [KEY]).fetchone()
    conn.execute("SELECT pg_advisory_unlock(%s)", [KEY]).fetchone()


def one_transaction(conn: Connection) -> None:
    conn.execute("SELECT pg_try_advisory_xact_lock(%s)", [KEY]).fetchone()
    conn.commit()


@contextmanager
def pals(dsn: str, _: Connection) -> Iterator[Run]:
    import pals  # noqa: PLC0415

    locker = pals.Locker("app", url(dsn), blocking_default=False)
    with locker.engine.connect() as pooled:
        pin(pooled.connection.driver_connection)

    def lock() -> None:
        with locker.lock(JOB):
            pass

    yield lock
    locker.engine.dispose()


@contextmanager
def postgresql_lock(_: str, conn: Connection) -> Iterator[Run]:
    from postgresql_lock import Lock  # noqa: PLC0415

    def lock() -> None:
        lock = Lock(conn, JOB)
        assert lock.acquire(block=False)
        lock.release()

    yield lock


@contextmanager
def sqlalchemy_dlock(dsn: str, _: Connection) -> Iterator[Run]:
    from sqlalchemy import create_engine  # noqa: PLC0415
    from sqlalchemy_dlock import create_sadlock  # noqa: PLC0415

    engine = create_engine(url(dsn))
    with engine.connect() as conn:
        pin(conn.connection.driver_connection)

        def lock() -> None:
            lock = create_sadlock(conn, JOB)
            assert lock.acquire(block=False)
            lock.release()

        yield lock
    engine.dispose()


@contextmanager
def django_pglock(dsn: str, _: Connection) -> Iterator[Run]:
    import django  # noqa: PLC0415
    from django.conf import settings  # noqa: PLC0415

    options = psycopg.conninfo.conninfo_to_dict(dsn)
    database = {"ENGINE": "django.db.backends.postgresql", "NAME": options.pop("dbname"), "OPTIONS": options}
    settings.configure(DATABASES={"default": database}, INSTALLED_APPS=["pgactivity", "pglock"])
    django.setup()
    import pglock  # noqa: PLC0415
    from django.db import connection  # noqa: PLC0415

    connection.ensure_connection()
    pin(connection.connection)

    def lock() -> None:
        with pglock.advisory(JOB, timeout=0) as acquired:
            assert acquired

    yield lock
    connection.close()


PEERS: dict[str, Callable[[str, Connection], AbstractContextManager[Run]]] = {
    "postgresql-lock": postgresql_lock,
    "django-pglock": django_pglock,
    "sqlalchemy-dlock": sqlalchemy_dlock,
    "pals": pals,
}


def leave_out(name: str, error: ImportError) -> None:
    print(f"lock: {name} is left out: {error}", file=sys.stderr)


def url(dsn: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    return "postgresql+psycopg://{user}@{host}:{port}/{dbname}".format_map(parts)


def compare(ours: Run, yardstick: Run) -> Pairs:
    return in_turns(repeated(ours), repeated(yardstick))


def repeated(work: Run) -> Run:
    def block() -> None:
        for _ in range(IN_A_BLOCK):
            work()

    return block


def in_turns(ours: Run, yardstick: Run) -> Pairs:
    """Time blocks in turns; returns the seconds of one of each."""
    for _ in range(5):
        ours()
        yardstick()
    pairs = interleave(ours, yardstick, pairs=BLOCKS)
    return Pairs(*([seconds / IN_A_BLOCK for seconds in side] for side in pairs))


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this process on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def pin(connection: C) -> C:
    """Keep the backend of a connection on the core of this process."""
    os.sched_setaffinity(connection.info.backend_pid, os.sched_getaffinity(0))
    return connection

"""Five replicas race for a job: exactly one runs it."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from pglock_inspect import arun_with_lock, arun_with_xact_lock, run_with_lock, run_with_xact_lock
from tests.postgres.lock.conftest import compete

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

JOB = "send_daily_digest"
ONE_OF_FIVE = [False] * 4 + [True]

both_kinds = pytest.mark.parametrize("xact", [False, True], ids=["session", "xact"])


@both_kinds
def test_five_threads_200_times(dsn: str, *, xact: bool) -> None:
    run = run_with_xact_lock if xact else run_with_lock
    with ExitStack() as connections:
        replicas = [connections.enter_context(psycopg.connect(dsn)) for _ in range(5)]
        for _ in range(200):
            assert sorted(compete(replicas, run)) == ONE_OF_FIVE


def test_five_threads_with_connections_of_the_helper_s_own(dsn: str) -> None:
    for _ in range(20):
        assert sorted(compete([dsn] * 5, run_with_lock)) == ONE_OF_FIVE


async def tasks_compete(
    connections: Sequence[psycopg.AsyncConnection[Any]], run: Callable[..., Awaitable[bool]]
) -> list[bool]:
    all_others_have_tried, busy = asyncio.Event(), 0

    async def replica(conn: psycopg.AsyncConnection[Any]) -> bool:
        nonlocal busy
        if await run(conn, JOB, all_others_have_tried.wait):
            return True
        busy += 1
        if busy == len(connections) - 1:
            all_others_have_tried.set()
        return False

    return await asyncio.gather(*map(replica, connections))


@both_kinds
async def test_five_tasks_200_times(dsn: str, *, xact: bool) -> None:
    run = arun_with_xact_lock if xact else arun_with_lock
    async with AsyncExitStack() as opened:
        connect = psycopg.AsyncConnection.connect
        replicas = [await opened.enter_async_context(await connect(dsn)) for _ in range(5)]
        for _ in range(200):
            assert sorted(await tasks_compete(replicas, run)) == ONE_OF_FIVE


# At a word from its parent it tries for the job, and says "busy", or "running" until another word comes.
REPLICA = """
import sys, psycopg, pglock_inspect

def say(word):
    print(word, flush=True)

def job():
    say("running")
    sys.stdin.readline()

with psycopg.connect(sys.argv[1]) as conn:
    run = getattr(pglock_inspect, sys.argv[2])
    while sys.stdin.readline():
        say("ran" if run(conn, "send_daily_digest", job) else "busy")
"""


@both_kinds
def test_five_processes_200_times(dsn: str, *, xact: bool) -> None:
    run = "run_with_xact_lock" if xact else "run_with_lock"
    command = [sys.executable, "-c", REPLICA, dsn, run]
    with ExitStack() as processes:
        replicas = [
            processes.enter_context(Popen(command, stdin=PIPE, stdout=PIPE, text=True, bufsize=1))
            for _ in range(5)
        ]
        for _ in range(200):
            for replica in replicas:
                tell(replica)
            said = [hear(replica) for replica in replicas]
            assert sorted(said) == ["busy"] * 4 + ["running"]
            runs = replicas[said.index("running")]
            tell(runs)
            assert hear(runs) == "ran"


def tell(process: Popen[str]) -> None:
    assert process.stdin
    process.stdin.write("go on\n")


def hear(process: Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def test_waiting_replicas_all_get_their_turn_one_after_the_other(dsn: str) -> None:
    """With a wait, everybody runs, and nobody beside another."""
    inside, most = 0, 0

    def job() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.0005)
        inside -= 1

    with ExitStack() as connections:
        replicas = [connections.enter_context(psycopg.connect(dsn)) for _ in range(5)]

        def run(conn: psycopg.Connection[Any] | str, name: str, _: object) -> bool:
            return all(run_with_lock(conn, name, job, wait=timedelta(seconds=30)) for _ in range(50))

        assert compete(replicas, run) == [True] * 5
    assert most == 1

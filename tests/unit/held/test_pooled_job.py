"""A job that comes and goes on one pooled connection is not called stale for sure, however it is polled."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from pglock_inspect.findings import Scene, judge
from pglock_inspect.holds import History, fold
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, Limits
from pglock_inspect.names import ConfiguredNames, NameBook
from pglock_inspect.stamps import settle_stamps
from pglock_inspect.watch import pause
from tests.unit.held.poller import Poller
from tests.unit.held.simulator import Key, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.held.simulator import Backend

    Work = Callable[[Backend], Iterator[int]]
    """What a job does with its session; yields microseconds to wait for."""

KEY = Key(1, 42)
HELD, FREE = 4_900_000, 100_000
HOUR = 3600 * 1_000_000


def in_the_client(backend: Backend) -> Iterator[int]:
    """Hold the lock with an idle session, whose last statement took it."""
    while True:
        statement(backend, "SELECT pg_advisory_lock(42)", take=True)
        yield HELD
        statement(backend, "SELECT pg_advisory_unlock(42)", take=False)
        yield FREE


def one_long_statement(backend: Backend) -> Iterator[int]:
    while True:
        statement(backend, "SELECT pg_advisory_lock(42)", take=True)
        backend.start("UPDATE accounts SET interest = interest * 1.01")
        yield HELD
        backend.finish()
        statement(backend, "SELECT pg_advisory_unlock(42)", take=False)
        yield FREE


def many_short_statements(backend: Backend) -> Iterator[int]:
    while True:
        statement(backend, "SELECT pg_advisory_lock(42)", take=True)
        for _ in range(49):
            backend.start("UPDATE accounts SET interest = interest * 1.01 WHERE id = 7")
            yield 80_000
            backend.finish()
            yield 20_000
        statement(backend, "SELECT pg_advisory_unlock(42)", take=False)
        yield FREE


def within_one_statement(backend: Backend) -> Iterator[int]:
    backend.start("DO $$ BEGIN LOOP ... END LOOP; END $$")
    while True:
        backend.take(KEY, transaction_level=False)
        yield HELD
        backend.release(KEY)
        yield FREE


def statement(backend: Backend, query: str, *, take: bool) -> None:
    backend.start(query)
    if take:
        backend.take(KEY, transaction_level=False)
    else:
        backend.release(KEY)
    backend.finish()


def severities(work: Work, *, visible: bool, max_held: float, interval: float, seed: int) -> set[str]:
    """Return the severities of ``stale`` in an hour of polls."""
    chance = Random(seed).random
    server = Server()
    poller, backend = Poller(server), server.connect(101, 3, 5, visible=visible)
    doing = work(backend)
    job = Job("sync", key=AdvisoryKey.from_bigint(42), limits=Limits(max_held=max_held))
    book, history = NameBook(ConfiguredNames([job])), History()
    found: set[str] = set()
    next_poll, next_action = round(chance() * (HELD + FREE)), 0
    while server.now < HOUR:
        while next_action <= next_poll:
            server.now = max(server.now, next_action)
            next_action += next(doing)
        server.now = next_poll
        poller.ask()
        poller.read_locks()
        poller.read_sessions()
        poller.read_prepared()
        history = settle_stamps(fold(history, poller.answer().snapshot, book))
        found |= {each.severity for each in judge(Scene(history, jobs=(job,))) if each.rule == "stale"}
        next_poll = server.now + round(pause(interval, 0, chance()) * 1e6)
    return found


WORK = [
    *((work, True) for work in (in_the_client, one_long_statement, many_short_statements)),
    *((work, False) for work in (in_the_client, many_short_statements, within_one_statement)),
]
"""And whether this role sees what the session does; where it sees one statement only, sixty polls count."""


@pytest.mark.parametrize(("work", "visible"), WORK)
def test_a_job_that_comes_and_goes_is_not_critical(work: Work, *, visible: bool) -> None:
    found = severities(work, visible=visible, max_held=5, interval=2, seed=1)
    assert found == {"warning"}  # it is under the lock for most of the time, as far as polls tell


@pytest.mark.slow
@pytest.mark.parametrize("interval", [1, 2, 2.5, 5])
@pytest.mark.parametrize(("work", "visible"), WORK)
def test_whatever_the_polls_it_is_not_critical(work: Work, *, visible: bool, interval: float) -> None:
    for seed in range(20):
        found = severities(work, visible=visible, max_held=5, interval=interval, seed=seed)
        assert "critical" not in found, f"seed {seed}"


def test_a_lock_that_stays_is_critical_in_the_end() -> None:
    """By what polls saw of it alone."""

    def stay(backend: Backend) -> Iterator[int]:
        statement(backend, "SELECT pg_advisory_lock(42)", take=True)
        while True:
            backend.start("SELECT 1")
            yield 50_000
            backend.finish()
            yield 50_000

    assert severities(stay, visible=True, max_held=5, interval=2, seed=1) == {"warning", "critical"}

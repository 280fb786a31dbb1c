"""The chaos: acts that harm sessions, processes, the server and the network, drawn by chance.

An act "at random" hits any worker at any moment. The others are aimed at a run, which goes on until it is
told, and so meets the next one.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
import psycopg

from tests.chaos.judge import TOLD_WITHIN
from tests.chaos.troop import KINDS, RUN
from tests.chaos.witness import LEASE, STEP
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Iterator

    from pglock_inspect.demo.server import StopMode, TemporaryServer
    from tests.chaos.troop import Place, Troop

BORROWED = [kind for kind in KINDS if "borrowed" in kind]
OWNED = [kind for kind in KINDS if "owned" in kind]
ASYNC = [kind for kind in KINDS if kind.startswith("async")]

_SOON = 60.0  # seconds in which the slowest machine does what takes a moment


class Running(NamedTuple):
    """A run that goes on until it is told, or nobody keeps it any more."""

    number: int
    session: str
    kind: str
    place: Place


class Monkey:
    """Acts on a server and on the workers that use it."""

    def __init__(self, server: TemporaryServer, troop: Troop, chance: random.Random) -> None:
        self._server, self._troop, self._chance = server, troop, chance
        self._witness = troop.witness

    # What is done to sessions and to the server

    def terminate(self) -> None:
        with self._kept() as run:
            self._terminate(run.session)
            self._see_through(run)

    def terminate_at_random(self) -> None:
        self._terminate(f"{self._somebody().life}.%")

    def restart(self, mode: StopMode) -> None:
        with self._kept() as run:
            self._server.restart(mode)
            self._see_through(run)

    # What is done to processes

    def kill(self, kinds: Collection[str] = KINDS) -> None:
        with self._kept(kinds) as run:
            first, *others = _tree(run.place)
            os.kill(self._chance.choice([first, self._chance.choice(others or [first])]), signal.SIGKILL)
            wait_until(lambda: self._is_over(run), "the worker is gone", timeout=_SOON)

    def kill_at_random(self) -> None:
        self._somebody().signal(signal.SIGKILL)

    def stop_at_random(self) -> None:
        with self._stopped(self._somebody()):
            self._pause(0.3)

    def stop_and_terminate(self) -> None:
        with self._kept() as run:
            with self._stopped(run.place):
                self._terminate(run.session)
                self._wait_for_next(run)
                self._pause(0.1)
            self._see_through(run)

    def stop_longer_than_the_lease(self, kinds: Collection[str]) -> None:
        with self._kept(kinds) as run:
            with self._stopped(run.place):
                self._outwait_the_lease(run)
            if self._another_began(run):
                self._see_through(run)

    def cancel(self) -> None:
        with self._kept(ASYNC) as run:
            self._end(run, signal.SIGUSR1)

    def cancel_at_random(self) -> None:
        self._strike(ASYNC, signal.SIGUSR1)

    def interrupt(self) -> None:
        with self._kept() as run:
            self._end(run, signal.SIGINT)

    def interrupt_at_random(self) -> None:
        self._strike(KINDS, signal.SIGINT)

    # What is done to the network

    def drop(self) -> None:
        with self._kept() as run:
            self._drop(run.place)
            self._see_through(run)

    def drop_all(self) -> None:
        for place in self._troop.places:
            self._drop(place)

    def freeze_at_random(self) -> None:
        proxy = self._somebody().proxy
        proxy.frozen = True
        self._pause(0.5)
        proxy.frozen = False

    def freeze_and_drop(self) -> None:
        with self._kept(BORROWED) as run:
            with self._frozen(run):
                self._pause(1)
            self._see_through(run)

    def freeze_and_terminate(self) -> None:
        with self._kept([*OWNED, *RUN]) as run, self._frozen(run):
            self._terminate(run.session)
            self._see_through(run)

    def freeze_longer_than_the_lease(self, kinds: Collection[str]) -> None:
        with self._kept(kinds) as run, self._frozen(run):
            self._outwait_the_lease(run)
            if self._another_began(run):
                self._see_through(run)

    # How it is done

    def _somebody(self, kinds: Collection[str] = KINDS) -> Place:
        def ready() -> list[Place]:
            return [place for place in self._troop.places if place.kind in kinds and place.ready]

        return self._chance.choice(wait_until(ready, "there is a worker", timeout=_SOON))

    @contextmanager
    def _kept(self, kinds: Collection[str] = KINDS) -> Iterator[Running]:
        """Have a run go on until it is told, or until the block ends."""
        try:
            run = wait_until(lambda: self._keep(kinds), "there is a run", timeout=_SOON)
            assert run
            yield run
        finally:
            self._witness.execute("UPDATE control SET kept = NULL")

    def _keep(self, kinds: Collection[str]) -> Running | None:
        newest = "SELECT id, session, kind FROM run ORDER BY id DESC LIMIT 1"
        number, session, kind = self._witness.execute(newest).fetchone() or (0, "", "")
        place = self._troop.place_of(session)
        if kind not in kinds or not place:
            return None
        run = Running(number, session, kind, place)
        self._witness.execute("UPDATE control SET kept = %s", [run.number])
        heard = self._steps(run) + 2  # the step that is under way may not have
        wait_until(lambda: self._is_over(run) or self._steps(run) >= heard, "a step is taken", timeout=_SOON)
        return None if self._is_over(run) else run

    def _terminate(self, session: str) -> None:
        terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
        with psycopg.connect(self._server.dsn()) as admin:
            admin.execute(terminate, [session])

    @contextmanager
    def _stopped(self, place: Place) -> Iterator[None]:
        """Stop a worker, or `run` without what descends from it."""
        life, tree = place.life, _tree(place)
        if life != place.life:  # it has just ended
            tree = []
        pids = self._chance.choice([tree, tree[:1]])
        stop = "INSERT INTO stop (life, whole) VALUES (%s, %s) RETURNING at"
        (at,) = self._row(stop, life, pids == tree)
        try:
            _send(pids, signal.SIGSTOP)
            yield
        finally:
            _send(pids, signal.SIGCONT)
            self._row("UPDATE stop SET until = clock_timestamp() WHERE at = %s RETURNING 1", at)

    @contextmanager
    def _frozen(self, run: Running) -> Iterator[None]:
        """Freeze a worker's connection, and drop it after the block."""
        run.place.proxy.frozen = True
        try:
            yield
        finally:
            self._drop(run.place)
            run.place.proxy.frozen = False

    def _drop(self, place: Place) -> None:
        dropped = "INSERT INTO dropped VALUES (%s)"
        self._witness.execute(dropped, [place.life])
        place.proxy.cut()
        self._witness.execute(dropped, [place.life])  # which may be another's by now

    def _strike(self, kinds: Collection[str], how: signal.Signals) -> None:
        """Send a signal some times: what is delicate takes a hundredth of a worker's time."""
        for _ in range(self._chance.randint(1, 20)):
            self._somebody(kinds).signal(how)
            self._pause(STEP)

    def _end(self, run: Running, how: signal.Signals) -> None:
        """Send a signal until the run has ended: Python loses an interrupt that strikes in a destructor."""
        while not self._is_over(run):
            run.place.signal(how)
            with suppress(AssertionError):
                wait_until(lambda: self._is_over(run), "the run has ended", timeout=_SOON / 10)

    def _wait_for_next(self, run: Running) -> None:
        wait_until(lambda: self._another_began(run), "another run has begun", timeout=_SOON)

    def _outwait_the_lease(self, run: Running) -> None:
        """Wait until another run has begun, or until the server should have ended this one's session.

        PostgreSQL 13 has no time-out for sessions that are idle outside transactions.
        """
        deadline = time.monotonic() + LEASE + 2
        while time.monotonic() < deadline and not self._another_began(run):
            time.sleep(0.05)
        self._pause(0.2)

    def _see_through(self, run: Running) -> None:
        """Wait until another run has begun and, if this one is told unasked, until it was, or was not."""
        self._wait_for_next(run)
        if run.kind in BORROWED:
            self._pause(10 * STEP)
            return
        too_late = self._steps(run) + 1.5 * TOLD_WITHIN / STEP
        wait_until(lambda: self._is_over(run) or self._steps(run) > too_late, "it is told", timeout=_SOON)

    def _is_over(self, run: Running) -> bool:
        over = "SELECT coalesce(told, ended) IS NOT NULL OR outcome IS NOT NULL FROM run WHERE id = %s"
        return self._row(over, run.number) == (True,)

    def _another_began(self, run: Running) -> bool:
        return self._row("SELECT EXISTS (SELECT FROM run WHERE id > %s)", run.number) == (True,)

    def _steps(self, run: Running) -> int:
        (steps,) = self._row("SELECT count(*) FROM step WHERE run = %s", run.number)
        return int(steps)

    def _row(self, statement: str, *parameters: object) -> tuple[Any, ...]:
        row = self._witness.execute(statement.encode(), parameters).fetchone()
        assert row
        return row

    def _pause(self, longest: float) -> None:
        time.sleep(self._chance.uniform(0, longest))


def _tree(place: Place) -> list[int]:
    """Return the pids of a worker and of all that descends from it."""
    pids = [place.process.pid]
    with suppress(psutil.NoSuchProcess):
        pids += [child.pid for child in psutil.Process(pids[0]).children(recursive=True)]
    return pids


def _send(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Act(NamedTuple):
    """Something the chaos does, and how often among all else."""

    name: str
    do: Callable[[Monkey], None]
    times: int = 1


QUICK = [
    Act("session terminated", Monkey.terminate, 4),
    Act("session terminated at random", Monkey.terminate_at_random),
    Act("worker killed", Monkey.kill, 2),
    Act("`run`, its guardian or its program killed", partial(Monkey.kill, kinds=RUN), 2),
    Act("worker killed at random", Monkey.kill_at_random),
    Act("worker stopped at random", Monkey.stop_at_random, 2),
    Act("worker stopped and its session terminated", Monkey.stop_and_terminate, 3),
    Act("server restarted, fast", partial(Monkey.restart, mode="fast")),
    Act("server restarted, immediate", partial(Monkey.restart, mode="immediate")),
    Act("connection dropped", Monkey.drop, 4),
    Act("all connections dropped", Monkey.drop_all),
    Act("connection frozen at random", Monkey.freeze_at_random, 2),
    Act("connection frozen, then dropped", Monkey.freeze_and_drop),
    Act("connection frozen and its session terminated", Monkey.freeze_and_terminate),
    Act("task cancelled", Monkey.cancel, 2),
    Act("task cancelled at random", Monkey.cancel_at_random, 3),
    Act("Ctrl-C", Monkey.interrupt, 2),
    Act("Ctrl-C at random", Monkey.interrupt_at_random, 4),
]
LONG = [
    Act("worker stopped for longer than the lease", partial(Monkey.stop_longer_than_the_lease, kinds=OWNED)),
    Act("`run` stopped for longer than the lease", partial(Monkey.stop_longer_than_the_lease, kinds=RUN)),
    Act(
        "connection frozen for longer than the lease",
        partial(Monkey.freeze_longer_than_the_lease, kinds=OWNED),
    ),
    Act("`run` frozen for longer than the lease", partial(Monkey.freeze_longer_than_the_lease, kinds=RUN)),
]

"""A lock with a connection of its own: it beats, the server ends it when it is silent, its loss is told."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
import time
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING

import psycopg
import pytest

from pglock_inspect import AsyncLock, Lock, LockLost, UnhashableName, run_with_lock, try_lock
from pglock_inspect.deadline import elapsed
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.lock import base
from tests.postgres.lock.conftest import advisory_locks
from tests.support.proxy import Proxy
from tests.support.sides import Sync
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.servers import Connection, StartServer
    from tests.support.sides import Side, Step

JOB = "send_daily_digest"
KILL = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything ten times as fast."""
    monkeypatch.setattr(base, "BEAT", base.BEAT / 10)
    monkeypatch.setattr(base, "DEADLINE", base.DEADLINE / 10)


@pytest.fixture(params=[False, True], ids=["session", "xact"])
def xact(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class Told:
    """When the loss was told, in seconds from the start."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.at: list[float] = []

    def __call__(self, lost: LockLost) -> None:
        assert isinstance(lost, LockLost)
        self.at.append(time.monotonic() - self.start)

    def wait(self, _: Step = None) -> None:
        self.start = time.monotonic()
        wait_until(lambda: self.at, "the loss is told")


def test_a_dead_run_is_over_before_the_lease_is() -> None:
    kill_after = 10  # of `run`
    assert base.BEAT + base.DEADLINE + kill_after < base.LEASE
    assert base.TICK < 1


def test_the_session_has_the_job_s_name(side: Side, dsn: str, janitor: Connection, *, xact: bool) -> None:
    seen: list[object] = []
    names = (
        "SELECT application_name FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE locktype = 'advisory'"
    )
    side.run(dsn, JOB, lambda _: seen.extend(janitor.execute(names)), xact=xact)
    assert seen == [(JOB,), (JOB,)]
    side.run(f"{dsn} application_name=mine", JOB, lambda _: seen.extend(janitor.execute(names)), xact=xact)
    assert seen[2:] == [("mine",), ("mine",)]
    for name in ("größe", "a'b\\c", "\t", "x" * 20_000):
        assert side.run(dsn, name, xact=xact)
    with pytest.raises(UnhashableName):
        side.run(dsn, "\ud800", xact=xact)


def test_the_connection_is_closed_with_the_lock(
    side: Side, dsn: str, janitor: Connection, *, xact: bool
) -> None:
    threads = {*threading.enumerate()}
    assert side.run(dsn, JOB, xact=xact)
    with try_lock(dsn, JOB):
        assert side.run(dsn, JOB, xact=xact) is False
    with pytest.raises(ZeroDivisionError):
        side.run(dsn, JOB, lambda _: 1 / 0, xact=xact)
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    wait_until(lambda: janitor.execute(ours, [JOB]).fetchone() == (0,), "no session is left")
    left = {thread.name for thread in {*threading.enumerate()} - threads}
    assert all(name.startswith("asyncio_") for name in left)  # which resolved the server's name


def test_a_server_that_is_not_there(side: Side, *, xact: bool) -> None:
    with pytest.raises(psycopg.OperationalError) as failed:
        side.run("host=127.0.0.1 port=1 password=secret", JOB, xact=xact)
    assert "secret" not in str(failed.value)


class TestTheLossIsTold:
    def test_of_a_session_that_is_ended(
        self, side: Side, dsn: str, janitor: Connection, *, xact: bool
    ) -> None:
        told = Told()
        with pytest.raises(LockLost, match="broke or was closed"):
            side.run(
                dsn, JOB, lambda _: janitor.execute(KILL), told_async(side, told), xact=xact, on_lost=told
            )
        assert told.at[0] < 2

    def test_of_a_server_that_restarts(self, side: Side, start_server: StartServer, *, xact: bool) -> None:
        server, told = start_server(), Told()
        with pytest.raises(LockLost):
            side.run(
                server.dsn(), JOB, lambda _: server.restart(), told_async(side, told), xact=xact, on_lost=told
            )
        assert told.at[0] < 5

    def test_of_a_connection_that_is_cut(self, side: Side, dsn: str, *, xact: bool) -> None:
        told = Told()
        with Proxy(dsn) as proxy, pytest.raises(LockLost):
            side.run(proxy.dsn, JOB, lambda _: proxy.cut(), told_async(side, told), xact=xact, on_lost=told)
        assert told.at[0] < 2

    @pytest.mark.usefixtures("hurried")
    def test_of_a_network_that_falls_silent(self, side: Side, dsn: str, *, xact: bool) -> None:
        told = Told()
        with Proxy(dsn) as proxy:

            def freeze(_: Step) -> None:
                proxy.frozen = True

            with pytest.raises(LockLost) as lost:
                side.run(proxy.dsn, JOB, freeze, told_async(side, told), xact=xact, on_lost=told)
            assert "did not answer within 0.5 s" in str(lost.value.__cause__)
            assert base.DEADLINE < told.at[0] < base.BEAT + base.DEADLINE + 1

    def test_only_once_and_not_at_the_end(
        self, side: Side, dsn: str, janitor: Connection, *, xact: bool
    ) -> None:
        told = Told()
        assert side.run(dsn, JOB, xact=xact, on_lost=told)
        assert told.at == []
        with pytest.raises(LockLost):
            side.run(
                dsn, JOB, lambda _: janitor.execute(KILL), told_async(side, told), xact=xact, on_lost=told
            )
        assert len(told.at) == 1

    def test_as_a_note_where_the_job_fails_too(self, side: Side, dsn: str, janitor: Connection) -> None:
        def fail(_: Step) -> None:
            raise ZeroDivisionError

        told = Told()
        with pytest.raises(ZeroDivisionError) as failed:
            side.run(dsn, JOB, lambda _: janitor.execute(KILL), told_async(side, told), fail, on_lost=told)
        assert "was lost while the job ran" in failed.value.__notes__[0]

    def test_by_the_lock_itself(self, side: Side, dsn: str, janitor: Connection) -> None:
        told, seen = Told(), []
        with pytest.raises(LockLost):
            side.hold(
                dsn,
                JOB,
                lambda lock: seen.append(bool(lock)),
                lambda _: janitor.execute(KILL),
                told_async(side, told),
                lambda lock: seen.append(bool(lock)),
                lambda lock: lock.check(),
                on_lost=told,
            )
        assert seen == [True, False]


def told_async(side: Side, told: Told) -> Step:
    """Wait for the loss in a way that lets the event loop turn."""

    async def wait(step: Step) -> None:
        await asyncio.to_thread(told.wait, step)

    return told.wait if isinstance(side, Sync) else wait


class TestTheLease:
    @pytest.mark.usefixtures("hurried")
    def test_is_renewed_by_beats(self, dsn: str, *, xact: bool) -> None:
        with Lock(dsn, JOB, transaction=xact, lease=1.5) as lock:
            time.sleep(4)
            lock.check()

    @pytest.mark.usefixtures("hurried")
    async def test_is_renewed_by_beats_in_the_event_loop(self, dsn: str, *, xact: bool) -> None:
        async with AsyncLock(dsn, JOB, transaction=xact, lease=1.5) as lock:
            await asyncio.sleep(4)
            await lock.check()

    @pytest.mark.usefixtures("hurried")
    @pytest.mark.postgres(14)
    def test_ends_the_session_of_a_silent_client(self, dsn: str, janitor: Connection, *, xact: bool) -> None:
        told = Told()
        with Proxy(dsn) as proxy:

            def fall_silent() -> None:
                time.sleep(1)
                proxy.frozen, frozen = True, time.monotonic()
                wait_until(lambda: not advisory_locks(janitor), "the server has ended the session")
                assert 1 < time.monotonic() - frozen < 4
                assert told.at

            with pytest.raises(LockLost), Lock(proxy.dsn, JOB, transaction=xact, lease=2, on_lost=told):
                fall_silent()

    @pytest.mark.postgres(14)
    def test_ends_the_session_of_a_frozen_process(self, dsn: str, janitor: Connection, *, xact: bool) -> None:
        """As the host of a virtual machine may freeze it: the process is told as soon as it goes on."""
        with Popen([sys.executable, "-c", HOLDER, dsn, str(xact)], stdout=PIPE, text=True) as holder:
            assert holder.stdout
            assert holder.stdout.readline() == "held\n"
            time.sleep(1)
            holder.send_signal(signal.SIGSTOP)
            try:
                wait_until(lambda: not advisory_locks(janitor), "the server has ended the session")
                assert run_with_lock(dsn, JOB, int)
            finally:
                holder.send_signal(signal.SIGCONT)
            thawed = time.monotonic()
            assert holder.stdout.readline() == "told\n"
            assert time.monotonic() - thawed < 5
            assert holder.stdout.readline() == "lost\n"


HOLDER = """
import sys, time
from pglock_inspect import LockLost
from pglock_inspect.lock import Lock, base

base.BEAT = 0.5
told = lambda lost: print("told", flush=True)
try:
    xact = sys.argv[2] == "True"
    with Lock(sys.argv[1], "send_daily_digest", transaction=xact, lease=2, on_lost=told) as lock:
        print("held", flush=True)
        while lock:
            time.sleep(0.1)
except LockLost:
    print("lost", flush=True)
"""


@pytest.mark.usefixtures("hurried")
def test_beats_and_checks_tell_when_the_lock_was_last_proven(dsn: str, *, xact: bool) -> None:
    with Proxy(dsn) as proxy:

        def look_at(lock: Lock) -> None:
            before = elapsed()
            lock.check()
            first = lock.proven_at
            assert before < first < elapsed()
            wait_until(lambda: lock.proven_at > first, "a beat")
            proxy.frozen, frozen = True, elapsed()
            wait_until(lambda: not lock, "the loss is known")
            assert lock.proven_at < frozen

        with pytest.raises(LockLost), Lock(proxy.dsn, JOB, transaction=xact) as lock:
            look_at(lock)


def test_a_key_of_its_own(dsn: str, janitor: Connection, *, xact: bool) -> None:
    with Lock(dsn, JOB, transaction=xact, key=AdvisoryKey.from_value((42, -7))):
        assert (42, 2**32 - 7, 2, "ExclusiveLock") in advisory_locks(janitor)


@pytest.mark.parametrize("own", [False, True], ids=["a connection", "its own"])
def test_a_lock_that_is_dropped_is_released(dsn: str, janitor: Connection, *, own: bool) -> None:
    conn, threads = psycopg.connect(dsn), threading.active_count()
    lock = try_lock(dsn if own else conn, JOB).__enter__()
    assert lock
    assert len(advisory_locks(janitor)) == 2
    del lock
    gc.collect()
    wait_until(lambda: not advisory_locks(janitor), "nothing is locked")
    wait_until(lambda: threading.active_count() == threads, "nobody is on watch")
    assert conn.closed is not own
    conn.close()

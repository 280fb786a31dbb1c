"""A program under a lock that is lost, or whose `run` is: it is gone before the next one gets in."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from tests.support.command import Pglock
from tests.support.proxy import Proxy
from tests.support.running import IDLE, STUBBORN, gone, running, wait_for_end
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Connection, StartServer

JOB = "send_daily_digest"
NEXT = f"SELECT pg_advisory_lock(hashtext('{JOB}'))"
HOLDERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted"


@pytest.fixture(params=[[], ["--xact"]], ids=["session", "xact"])
def level(request: pytest.FixtureRequest) -> list[str]:
    """The options of a session-level and a transaction-level lock."""
    options: list[str] = request.param
    return ["--kill-after", "1s", *options]


@pytest.fixture(params=[IDLE, STUBBORN], ids=["willing", "stubborn"])
def script(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def next_gets_in(dsn: str, family: list[psutil.Process]) -> None:
    """Wait for the lock like the next run, and see that nothing is left of this one once it is granted."""
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("SET lock_timeout = '20s'")
        session.execute(NEXT)
        assert [process for process in family[1:] if not gone(process)] == []


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_nothing_is_left_when_the_lock_goes_on_from_a_run_that(
    kill: signal.Signals, pglock: Pglock, dsn: str, level: list[str], script: str
) -> None:
    with running(pglock, JOB, *level, "--", "sh", "-c", script) as run:
        family = run.family
        run.send(kill)
        next_gets_in(dsn, family)
        run.send(signal.SIGCONT)
        if kill == signal.SIGSTOP:
            assert run.wait() == 76
            assert "lost its lock while it ran" in run.stderr.read()
        wait_for_end(family)


def test_a_run_that_is_killed_keeps_the_lock_until_its_program_has_ended(
    pglock: Pglock, janitor: Connection
) -> None:
    script = "trap 'sleep 0.7; exit' TERM; echo started; while :; do sleep 0.05; done"
    with running(pglock, JOB, "--", "sh", "-c", script) as run:
        program = run.program
        (holders,) = {tuple(janitor.execute(HOLDERS).fetchall())}
        run.send(signal.SIGKILL)
        run.wait()
        while not gone(program):
            assert tuple(janitor.execute(HOLDERS).fetchall()) == holders or gone(program)
        wait_until(lambda: not janitor.execute(HOLDERS).fetchall(), "the lock is free")


@pytest.mark.postgres(14)  # where the server ends an idle session; before, the lock is kept
def test_nothing_is_left_when_the_lease_ends_behind_a_network_that_fell_silent(
    tmp_path: Path, dsn: str, level: list[str], script: str
) -> None:
    with (
        Proxy(dsn) as proxy,
        running(Pglock(tmp_path, proxy.dsn), JOB, *level, "--", "sh", "-c", script) as run,
    ):
        family = run.family
        proxy.frozen = True
        next_gets_in(dsn, family)
        assert run.wait() == 76
        assert "did not answer within 0.5 s" in run.stderr.read()


@pytest.mark.usefixtures("dsn")
class TestTheProgramIsEndedWhen:
    def test_the_session_is_ended(
        self, pglock: Pglock, janitor: Connection, level: list[str], script: str
    ) -> None:
        with running(pglock, JOB, *level, "--", "sh", "-c", script) as run:
            family = run.family
            janitor.execute(f"SELECT pg_terminate_backend(pid) FROM ({HOLDERS}) AS holders")
            assert run.wait() == 76
            assert all(map(gone, family))
            assert run.stderr.read().endswith(
                f"pglock-inspect: {JOB} lost its lock while it ran, and was ended; another may have begun "
                "(terminating connection due to administrator command)\n"
            )

    def test_the_server_restarts(
        self, tmp_path: Path, start_server: StartServer, level: list[str], script: str
    ) -> None:
        server = start_server()
        with running(Pglock(tmp_path, server.dsn()), JOB, *level, "--", "sh", "-c", script) as run:
            family = run.family
            server.restart("immediate")
            assert run.wait() == 76
            assert all(map(gone, family))

    def test_the_connection_is_cut(self, tmp_path: Path, dsn: str, level: list[str]) -> None:
        with (
            Proxy(dsn) as proxy,
            running(Pglock(tmp_path, proxy.dsn), JOB, *level, "--", "sh", "-c", IDLE) as run,
        ):
            proxy.cut()
            assert run.wait() == 76
            assert gone(run.program)


def test_daemons_of_the_program_are_ended_too(pglock: Pglock, janitor: Connection) -> None:
    script = "setsid sleep 60 & timeout 60 sleep 61 & (sleep 62 &) ; sleep 0.3;" + IDLE
    with running(pglock, JOB, "--kill-after", "1s", "--", "sh", "-c", script) as run:
        family = run.family
        assert {"60", "61", "62"} <= {process.cmdline()[-1] for process in family}
        janitor.execute(f"SELECT pg_terminate_backend(pid) FROM ({HOLDERS}) AS holders")
        assert run.wait() == 76
        assert all(map(gone, family))


@pytest.mark.parametrize("script", [IDLE, "setsid sleep 60 & " + STUBBORN])
def test_a_guardian_that_is_killed_takes_the_program_with_it(pglock: Pglock, dsn: str, script: str) -> None:
    with running(pglock, JOB, "--", "sh", "-c", script) as run:
        family = run.family
        run.guardian.kill()
        next_gets_in(dsn, family)
        assert run.wait() == 137
        assert all(map(gone, family))
        assert "the process that guards send_daily_digest was killed" in run.stderr.read()


def test_a_guardian_that_is_stopped_does_not_save_the_program(pglock: Pglock, janitor: Connection) -> None:
    with running(pglock, JOB, "--kill-after", "1s", "--", "sh", "-c", IDLE) as run:
        family = run.family
        run.guardian.suspend()
        janitor.execute(f"SELECT pg_terminate_backend(pid) FROM ({HOLDERS}) AS holders")
        assert run.wait() == 76
        assert all(map(gone, family))


def send_all(family: list[psutil.Process], signum: signal.Signals) -> None:
    for process in family:
        with suppress(psutil.NoSuchProcess):  # a `sleep` of the script's
            process.send_signal(signum)


def test_all_of_it_is_ended_as_soon_as_it_is_thawed(pglock: Pglock) -> None:
    """As a host or a container may be frozen: nothing can be done before."""
    with running(pglock, JOB, "--kill-after", "1s", "--", "sh", "-c", STUBBORN) as run:
        family = run.family
        run.send(signal.SIGSTOP)
        send_all(family, signal.SIGSTOP)
        threading.Event().wait(5)
        send_all(family[::-1], signal.SIGCONT)
        wait_for_end(family)
        run.send(signal.SIGCONT)
        assert run.wait() == 76


def test_a_run_lives_through_a_short_stop(pglock: Pglock, janitor: Connection) -> None:
    with running(pglock, JOB, "--", "sh", "-c", IDLE) as run:
        run.send(signal.SIGSTOP)
        threading.Event().wait(0.5)
        run.send(signal.SIGCONT)
        threading.Event().wait(4)
        assert len(janitor.execute(HOLDERS).fetchall()) == 2
        run.send(signal.SIGTERM)
        assert run.wait() == 9


def test_beats_keep_the_lease(pglock: Pglock, janitor: Connection, level: list[str]) -> None:
    with running(pglock, JOB, *level, "--", "sh", "-c", "echo started; sleep 6; exit 3") as run:
        assert run.wait() == 3
        assert run.stderr.read() == ""
    assert not janitor.execute(HOLDERS).fetchall()

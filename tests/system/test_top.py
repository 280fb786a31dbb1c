"""The live table in a real terminal, on a real server."""

from __future__ import annotations

import json
import os
import re
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
import pytest

from tests.support.command import COMMAND, Pglock
from tests.support.tmux import terminal
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.support.servers import Connect, Connection, StartServer
    from tests.support.tmux import Terminal

TAKE_DIGEST = "SELECT pg_advisory_lock(hashtext('send_daily_digest'))"
FREE_DIGEST = "SELECT pg_advisory_unlock(hashtext('send_daily_digest'))"
Queue = tuple[psycopg.Connection[Any], psycopg.Connection[Any], Future[Any]]
JOBS = """
[[jobs]]
name = "send_daily_digest"
max_held = "1s"
"""


class Top(Protocol):
    """Runs `top` in a terminal; keywords are environment variables."""

    def __call__(
        self, *options: str, size: tuple[int, int] = (80, 24), **environment: str
    ) -> AbstractContextManager[Terminal]: ...


def top_on(pglock: Pglock) -> Top:
    def run(
        *options: str, size: tuple[int, int] = (80, 24), **environment: str
    ) -> AbstractContextManager[Terminal]:
        environment = {"TERM": "tmux-256color", **environment}
        command = [*COMMAND, "top", "--every", "100ms", *options]
        return terminal(command, pglock.directory, pglock.environment(**environment), size=size)

    return run


@pytest.fixture
def top(pglock: Pglock) -> Top:
    (pglock.directory / "pglock-inspect.toml").write_text(JOBS)
    return top_on(pglock)


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (40, 10), (400, 200)])
def test_shows_what_is_held_and_who_waits_and_quits(
    top: Top, connect: Connect, size: tuple[int, int]
) -> None:
    holder = connect("worker-3")
    holder.execute(TAKE_DIGEST)
    with top(size=size) as screen:
        screen.wait_for("✗ send_daily_di")
        screen.wait_for("✗ 1 critical")
        assert "connected" in screen.lines[0]
        row, *_ = (line for line in screen.lines if line.strip().startswith("✗ send_daily_di"))
        assert (str(holder.info.backend_pid) in row) == (size[0] >= 80)
        assert ("-1957215242" in row) == (size[0] >= 160)
        screen.press("Enter")
        screen.wait_for("Esc back")
        screen.wait_for("is STALE")
        screen.press("Escape")
        screen.wait_for("/ filter")
        screen.press("q")
        assert screen.wait_for_end() == 0
        assert screen.ask("alternate_on") == "0"


def test_follows_the_server(top: Top, connect: Connect) -> None:
    holder, other = connect("worker-1"), connect("worker-2")
    with top() as screen:
        screen.wait_for("No advisory lock is held or waited for.")
        holder.execute(TAKE_DIGEST)
        screen.wait_for("send_daily_digest")
        other.execute("SELECT pg_advisory_lock_shared(7, -42)")
        screen.wait_for("7,-42")
        screen.wait_for("2 held")
        holder.execute(FREE_DIGEST)
        wait_until(lambda: "send_daily_digest" not in screen.text, "the lock that is free is gone")
        screen.resize(120, 30)
        screen.wait_for("APPLICATION")
        screen.press("/", "worker-1")
        screen.wait_for("None of 1 rows fits the filter")
        screen.press("Escape")
        screen.wait_for("7,-42")


def test_all_of_it_is_there_again_after_other_hands_had_the_terminal(top: Top, connect: Connect) -> None:
    connect("worker-3").execute("SELECT pg_advisory_lock(7, -42)")
    with top("--every", "1h") as screen:  # nothing changes, so that nothing is painted by chance
        screen.wait_for("7,-42")
        screen.wait_for("configure")  # the last to be painted
        shown = screen.lines
        screen.press("C-z")
        wait_until(lambda: screen.ask("alternate_on") == "0", "the terminal is given back")
        os.kill(screen.pid, signal.SIGCONT)
        wait_until(lambda: screen.lines == shown, "all is painted")
        screen.press("q")
        assert screen.wait_for_end() == 0


def test_fifty_thousand_locks(start_server: StartServer, stray: Pglock) -> None:
    server = start_server({"max_locks_per_transaction": 600})
    with psycopg.connect(server.dsn(), autocommit=True) as holder:
        holder.execute("SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 50000) n")
        with top_on(stray)("--dsn", server.dsn(), "--every", "1s", size=(160, 50)) as screen:
            screen.wait_for("50000 held")
            screen.wait_for("1/50000")
            screen.press("j", "j")
            screen.wait_for("3/50000")
            screen.press("G")
            screen.wait_for("50000/50000")
            screen.press("/", "49999")
            screen.wait_for("1/1")
            screen.press("Escape")
            screen.wait_for("49999/50000")
            screen.press("f")
            screen.wait_for("many-locks-one-session")
            screen.press("q")
            assert screen.wait_for_end() == 0


def test_keys_are_obeyed_while_the_server_hangs(start_server: StartServer, stray: Pglock) -> None:
    server = start_server()
    with (
        psycopg.connect(server.dsn(), autocommit=True) as holder,
        top_on(stray)("--dsn", server.dsn()) as screen,
    ):
        holder.execute("SELECT pg_advisory_lock(1), pg_advisory_lock(2)")
        screen.wait_for("1/2")
        ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pglock-inspect'"
        [(backend,)] = holder.execute(ours).fetchall()
        os.kill(backend, signal.SIGSTOP)
        try:
            screen.press("j")
            screen.wait_for("2/2")
            screen.wait_for("the server has not answered for")
            screen.press("q")
            assert screen.wait_for_end() == 0
        finally:
            os.kill(backend, signal.SIGCONT)


def test_hostile_text_is_inert(top: Top, connect: Connect) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\u202e[red]"
    holder: Any = connect(evil)
    holder.execute(f"SELECT pg_advisory_lock(1) /* {evil} */")
    with top(size=(160, 50)) as screen:
        screen.wait_for(r"\x1b]0;owned\x07\x1b[2J\u202e[red]")
        assert screen.lines[0].startswith(" pglock-inspect")
        assert "owned" not in screen.ask("pane_title")


def test_without_a_terminal_it_says_so(pglock: Pglock) -> None:
    done = pglock("top", code=3)
    assert done.stdout == ""
    assert done.stderr == (
        "pglock-inspect: top needs stdin, stdout and stderr on a terminal that can draw: "
        "elsewhere use ls or ls --watch\n"
    )


def test_a_dumb_terminal_is_none(top: Top) -> None:
    with top(TERM="dumb") as screen:
        assert screen.wait_for_end() == 3
        assert "on a terminal that can draw" in screen.text.replace("\n", "")


def test_a_server_that_is_not_there_is_told_when_the_screen_is_given_back(stray: Pglock) -> None:
    with top_on(stray)("--dsn", "host=127.0.0.1 port=1", size=(160, 24)) as screen:
        assert screen.wait_for_end() == 3
        assert "pglock-inspect: cannot connect to 127.0.0.1:1" in screen.text
        assert "Traceback" not in screen.text
        assert screen.ask("alternate_on") == "0"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_one_gives_the_screen_back(top: Top, signum: signal.Signals) -> None:
    with top() as screen:
        screen.wait_for("No advisory lock")
        os.kill(screen.pid, signum)
        assert screen.wait_for_end() == 128 + signum
        assert screen.ask("alternate_on") == "0"
        assert "No advisory lock" not in screen.text


def test_it_ends_with_its_terminal(top: Top, janitor: Connection) -> None:
    ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pglock-inspect'"
    with top() as screen:
        screen.wait_for("No advisory lock")
        assert janitor.execute(ours).fetchone() == (1,)
        screen.run("respawn-pane", "-k", "sleep 86400")
        wait_until(lambda: janitor.execute(ours).fetchone() == (0,), "its session has ended")


def test_no_color_means_none(top: Top, connect: Connect) -> None:
    connect().execute(TAKE_DIGEST)
    with top(NO_COLOR="1") as screen:
        screen.wait_for("✗ send_daily_digest")
        styles = set(re.findall(r"\x1b\[([\d;]*)m", screen.painted))
        codes = {code for style in styles for code in style.split(";")}
        assert codes <= {"", "0", "1", "7", "39", "49"}
        assert "7" in codes  # the selected row


@pytest.mark.parametrize(("colorfgbg", "background"), [("0;15", "48;5;231"), ("15;0", "48;5;16")])
def test_light_and_dark(top: Top, colorfgbg: str, background: str) -> None:
    with top(COLORFGBG=colorfgbg) as screen:
        screen.wait_for("No advisory lock")
        assert background in screen.painted


@pytest.mark.parametrize("variables", [{"LC_ALL": "C"}, {"LANG": "C"}, {"LANG": "de_DE.ISO-8859-1"}])
def test_ascii_where_the_locale_asks(top: Top, connect: Connect, variables: dict[str, str]) -> None:
    connect("\u540d\u524d").execute(TAKE_DIGEST)
    with top(size=(160, 50), **variables) as screen:
        screen.wait_for("X send_daily_digest")
        assert screen.text.replace("\u540d\u524d", "").isascii()
        screen.press("?")
        screen.wait_for("Ctrl-C")
        assert screen.text.isascii()


def test_the_mouse_works(top: Top, connect: Connect) -> None:
    holder = connect("worker-3")
    holder.execute("SELECT pg_advisory_lock(4242), pg_advisory_lock(4343)")
    with top() as screen:
        screen.wait_for("1/2")
        screen.click("4343")
        screen.wait_for("2/2")
        screen.click("findings")
        screen.wait_for("4 FINDINGS")
        screen.click("q quit")
        assert screen.wait_for_end() == 0


# --- What keys do to the server ------------------------------------------------------------------------


@pytest.fixture
def queue(connect: Connect) -> Iterator[Queue]:
    """A holder, a waiter, and what becomes of its statement."""
    holder, waiter = connect("worker-3"), connect("worker-7")
    holder.execute(TAKE_DIGEST)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(waiter.execute, TAKE_DIGEST)
        yield holder, waiter, waiting
        if not waiting.done():
            holder.close()


def test_a_waiter_is_cancelled(top: Top, queue: Queue) -> None:
    holder, waiter, waiting = queue
    with top("--every", "200ms", size=(160, 50)) as screen:
        screen.wait_for("1 waiting")
        screen.press("/", "worker-7", "Enter")
        screen.wait_for("1/1")
        screen.press("c")
        screen.wait_for(f"Cancel pid {waiter.info.backend_pid}")
        screen.wait_for("cancelled, its statement fails")
        screen.press("n")
        screen.wait_for("Nothing was done.")
        screen.press("c")
        screen.wait_for("cancelled, its statement fails")
        screen.press("y")
        screen.wait_for("no longer waits for send_daily_digest")
    with pytest.raises(psycopg.errors.QueryCanceled):
        waiting.result()
    assert holder.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_a_holder_is_terminated(top: Top, queue: Queue, size: tuple[int, int]) -> None:
    holder, waiter, waiting = queue
    with top(size=size) as screen:
        screen.wait_for("1 waiting")
        screen.press("K")
        screen.wait_for(f"Terminate pid {holder.info.backend_pid}")
        screen.wait_for("ended, it loses its connection, its 1 advisory lock; 1 wait")
        screen.press("y")
        screen.wait_for("is gone; send_daily_digest is held by")
        screen.wait_for("0 waiting")
    waiting.result()
    assert waiter.execute(FREE_DIGEST).fetchone() == (True,)
    with pytest.raises(psycopg.OperationalError):
        holder.execute("SELECT 1")


def test_who_has_gone_on_is_left_alone(top: Top, connect: Connect) -> None:
    holder = connect("worker-3")
    holder.execute(TAKE_DIGEST)
    with top("--every", "1h", size=(160, 50)) as screen:
        screen.wait_for("send_daily_digest")
        holder.execute(FREE_DIGEST)
        screen.press("K")
        screen.wait_for("Terminate pid")
        screen.press("y")
        screen.wait_for("no longer holds send_daily_digest: nothing was done")
    assert holder.execute("SELECT 1").fetchone() == (1,)


def test_read_only_ends_nothing(top: Top, connect: Connect) -> None:
    holder = connect("worker-3")
    holder.execute(TAKE_DIGEST)
    with top("--read-only") as screen:
        screen.wait_for("send_daily_digest")
        screen.press("K")
        screen.wait_for("This view is read-only")
    assert holder.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
def test_every_view_opens(top: Top, queue: Queue, connect: Connect, size: tuple[int, int]) -> None:
    holder, *_ = queue
    with top(size=size) as screen:
        screen.wait_for("1 waiting")
        screen.press("2")
        screen.wait_for("LAST RUN")
        screen.press("t")
        screen.wait_for(f"{holder.info.backend_pid} worker-3")
        screen.wait_for("└─ ")
        screen.press("f")
        screen.wait_for("RULE")
        screen.wait_for("stale")
        screen.press("5")
        screen.wait_for("Nothing was taken or released since this view was opened.")
        other = connect("worker-9")
        other.execute("SELECT pg_advisory_lock(7, -42)")
        screen.wait_for("+ 7,-42")
        other.execute("SELECT pg_advisory_unlock(7, -42)")
        screen.wait_for("- 7,-42")
        screen.press("?")
        screen.wait_for("the row above")
        screen.press("q")
        wait_until(lambda: "the row above" not in screen.text, "the help is closed")
        screen.press(":")
        screen.wait_for("What to do")
        screen.press("locks")
        screen.wait_for("key 1")
        screen.press("Enter")
        screen.wait_for("OF MAX")


def test_rows_are_exported_and_copied(top: Top, pglock: Pglock, connect: Connect) -> None:
    connect("worker-3").execute(TAKE_DIGEST)
    with top() as screen:
        screen.wait_for("send_daily_digest")
        screen.press("e")
        screen.wait_for("Export 1 rows as")
        screen.press("Enter")
        screen.wait_for("1 rows are in")
        screen.run("set-option", "-s", "set-clipboard", "on")
        screen.press("y")
        screen.wait_for("Copied")
        wait_until(lambda: "send_daily_digest" in screen.run("show-buffer"), "the terminal has the copy")
    [file] = pglock.directory.glob("pglock-locks-*.json")
    assert json.loads(file.read_text())[0]["job"] == "send_daily_digest"


@pytest.fixture
def config(pglock: Pglock, dsn: str) -> Path:
    """A configuration with two targets."""
    file = pglock.directory / "targets.toml"
    targets = "".join(f'[[targets]]\nname = "{name}"\ndsn = "{dsn}"\n' for name in ("blue", "green"))
    file.write_text(JOBS + targets)
    return file


@pytest.mark.parametrize("choice", [["--target", "blue"], ["--dsn", "host=127.0.0.1 port=1"]])
def test_a_choice_among_targets(top: Top, config: Path, choice: list[str]) -> None:
    with top("--config", str(config), *choice) as screen:
        screen.wait_for("blue  PostgreSQL" if "blue" in choice else "cannot connect to 127.0.0.1:1")
        assert "targets" not in screen.text


def test_all_configured_targets_are_shown(top: Top, config: Path, connect: Connect) -> None:
    connect("worker-3").execute(TAKE_DIGEST)
    with top("--config", str(config), size=(100, 30)) as screen:
        screen.wait_for("2 targets")
        screen.wait_for("blue ")
        screen.wait_for("green ")
        screen.wait_for("2 held")
        screen.press("T")
        screen.wait_for("all targets")
        screen.press("Down", "Down", "Enter")
        screen.wait_for("1 held")
        assert "blue" not in screen.text
        assert screen.lines[0].split()[1] == "green"


def test_a_holder_at_work_is_terminated(top: Top, connect: Connect) -> None:
    holder = connect("worker-3")
    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(holder.execute, f"{TAKE_DIGEST}; SELECT pg_sleep(3600)")
        with top(size=(160, 50)) as screen:
            screen.wait_for("send_daily_digest")
            screen.press("K")
            screen.wait_for("it is active")
            screen.press("y")
            screen.wait_for("is gone; send_daily_digest is free")
        with pytest.raises(psycopg.OperationalError):
            working.result()

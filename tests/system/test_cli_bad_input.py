"""Whatever is wrong: one sentence on stderr that says what to do, exit code 3, no traceback, no password."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from tests.support.command import COMMAND
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.command import Pglock
    from tests.support.servers import StartServer

SECRET = "correct-horse-battery"


def complaint(pglock: Pglock, *arguments: str, env: dict[str, str] | None = None) -> str:
    done = pglock(*arguments, code=3, env=env)
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("pglock-inspect: ")
    assert lines[0].isprintable()
    assert SECRET not in done.stdout + done.stderr
    return lines[0].removeprefix("pglock-inspect: ")


@pytest.mark.parametrize("command", ["ls", "check"])
def test_an_unreachable_server(stray: Pglock, command: str) -> None:
    dsn = f"postgresql://app:{SECRET}@127.0.0.1:1/app"
    sentence = complaint(stray, command, "--dsn", dsn)
    assert sentence.startswith("cannot connect to 127.0.0.1:1: ")
    assert sentence.endswith("check that the server runs there and that this host may reach it")


def test_no_host_at_all(stray: Pglock) -> None:
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect("host='' port=1")
    default = re.search(r'on socket "(.+)/\.s\.PGSQL\.1" failed', str(refused.value))
    assert default
    sentence = complaint(stray, "check", "--dsn", "port=1")
    assert sentence.startswith(f"cannot connect to {default[1]}: No such file or directory; ")


@pytest.mark.parametrize("command", ["ls", "check"])
def test_a_host_that_does_not_exist(stray: Pglock, command: str) -> None:
    assert complaint(stray, command, "--dsn", "host=nowhere.invalid").startswith(
        "cannot connect to nowhere.invalid:5432"
    )


def test_a_wrong_password(start_server: StartServer, stray: Pglock) -> None:
    server = start_server(password="another one")
    sentence = complaint(stray, "ls", "--dsn", server.dsn(password=SECRET))
    assert sentence.startswith(f"cannot connect to 127.0.0.1:{server.port}: ")
    assert "password authentication failed" in sentence
    assert "~/.pgpass" in sentence


def test_an_unknown_database(pglock: Pglock, dsn: str) -> None:
    sentence = complaint(pglock, "ls", "--dsn", f"{dsn} dbname=nowhere")
    assert 'database "nowhere" does not exist' in sentence
    assert "check the name of the database" in sentence


@pytest.mark.parametrize(
    "dsn", [f"postgresql://app:{SECRET}@[h/app", f"hosst=a password={SECRET}", f"{SECRET}", "a=b c"]
)
def test_a_bad_connection_string(stray: Pglock, dsn: str) -> None:
    assert complaint(stray, "ls", "--dsn", dsn).startswith("--dsn: the connection string cannot be read: ")
    by_variable = complaint(stray, "check", env={"DATABASE_URL": dsn})
    assert by_variable.startswith("DATABASE_URL: the connection string cannot be read: ")


@pytest.mark.parametrize("command", ["ls", "check"])
def test_a_bad_connection_string_of_one_target(stray: Pglock, command: str) -> None:
    stray.directory.joinpath("own.toml").write_text(
        '[[targets]]\nname = "away"\ndsn = "host=127.0.0.1 port=1"\n'
        f'[[targets]]\nname = "prod"\ndsn = "postgresql://app:{SECRET}/x@db/app"\n'
    )
    sentence = complaint(stray, command, "--config", "own.toml", "--target", "all")
    assert sentence.startswith("target prod: the connection string cannot be read: ")


@pytest.mark.parametrize("command", ["ls", "check", "top"])
def test_a_bad_configuration(stray: Pglock, command: str) -> None:
    config = stray.directory / "bad.toml"
    config.write_text("[defaults]\nmax_held = 10m\n")
    if command == "top":
        assert complaint(stray, command).startswith("top needs ")
        return
    sentence = complaint(stray, command, "--config", str(config))
    assert sentence.startswith(f"{config}: line 2, column ")
    assert sentence.endswith('write a duration in quotes, like "10m"')


@pytest.mark.parametrize("command", ["why", "kill", "identify"])
@pytest.mark.parametrize("digits", ["9" * 5_000, "pid:" + "9" * 5_000, "1," + "9" * 5_000])
def test_a_number_of_thousands_of_digits(pglock: Pglock, command: str, digits: str) -> None:
    done = pglock(command, digits, *(["--dry-run"] if command == "kill" else []), code=None)
    assert "unforeseen" not in done.stderr


def test_a_missing_configuration(stray: Pglock) -> None:
    assert "there is no such file: correct --config" in complaint(stray, "ls", "--config", "nowhere.toml")


def test_a_target_that_is_not_configured(stray: Pglock) -> None:
    assert complaint(stray, "ls", "--target", "prod").startswith("no targets are configured: ")


@pytest.fixture
def silent() -> Iterator[str]:
    """The connection string of a server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"host=127.0.0.1 port={listener.getsockname()[1]}"


def test_a_server_that_does_not_answer(stray: Pglock, silent: str) -> None:
    sentence = complaint(stray, "check", "--dsn", f"{silent} connect_timeout=2")
    assert sentence.startswith("cannot connect to 127.0.0.1:")
    assert sentence.endswith("or allow more time with connect_timeout")


@pytest.mark.parametrize("targets", [1, 2])
def test_an_interrupt_does_not_wait_for_a_server(stray: Pglock, silent: str, targets: int) -> None:
    stray.directory.joinpath("own.toml").write_text(
        "".join(f'[[targets]]\nname = "{number}"\ndsn = "{silent}"\n' for number in range(targets))
    )
    looking = stray.start("ls", "--config", "own.toml", "--target", "all")
    wait_until(lambda: len(psutil.Process(looking.pid).net_connections()) == targets, "it has connected")
    looking.send_signal(signal.SIGINT)
    out, err = looking.communicate(timeout=5)
    assert (looking.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize("command", ["ls", "check", "why 1", "kill 1", "doctor"])
def test_an_interrupt_does_not_wait_for_a_server_that_fell_silent(
    stray: Pglock, dsn: str, command: str
) -> None:
    with Proxy(dsn) as proxy:
        proxy.frozen_after = 2  # it lets them in
        looking = stray.start(*command.split(), "--dsn", proxy.dsn)
        wait_until(lambda: proxy.frozen, "it has connected")
        looking.send_signal(signal.SIGINT)
        out, err = looking.communicate(timeout=5)
    assert (looking.returncode, out, err) == (130, "", "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["check", "--dsn", "host=127.0.0.1 port=1"], 3),
        (["key", "send_daily_digest"], 0),
        (["ls", "--help"], 0),
        (["nothing"], 3),
    ],
)
def test_closed_streams(stray: Pglock, arguments: list[str], code: int, closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *COMMAND, *arguments],
        env=stray.environment(),
        cwd=stray.directory,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert "unforeseen" not in done.stderr

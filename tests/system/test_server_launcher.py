from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from pglock_inspect.demo import programs
from pglock_inspect.demo.server import StopMode, TemporaryServer
from pglock_inspect.errors import ServerUnavailable
from tests.support.leftovers import directories, processes, wait_for_nothing_left
from tests.support.servers import StartServer, bindir
from tests.support.waiting import wait_until

# Its directory and its processes are known by a mark of the test's.
PARENT = """
import sys
from pathlib import Path
from pglock_inspect.demo import server as launcher

launcher._REAPER = launcher._REAPER.replace("XXXXXX", sys.argv[2] + "-XXXXXX")
print("starting", flush=True)
with launcher.TemporaryServer(bindir=Path(sys.argv[1])) as server:
    print(server.pid, flush=True)
    sys.stdin.readline()
    {ending}
"""


def parent(mark: str, ending: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PARENT.format(ending=ending), str(bindir()), mark]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    assert line_of(process) == "starting"
    return process


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def shared_memory_segments() -> list[str]:
    listing = subprocess.run(["ipcs", "-m"], capture_output=True, text=True, check=True).stdout
    return [line.split()[1] for line in listing.splitlines() if len(line.split()) > 1]


@pytest.fixture
def mark() -> str:
    return secrets.token_hex(8)


@pytest.mark.parametrize(
    ("ending", "how", "status"),
    [
        ("", None, 0),
        ("sys.exit(3)", None, 3),
        ("raise RuntimeError('the job failed')", None, 1),
        ("server.kill()", None, 0),
        ("server.stop()", None, 0),
        ("", signal.SIGTERM, -signal.SIGTERM),
        ("", signal.SIGINT, -signal.SIGINT),
        ("", signal.SIGHUP, -signal.SIGHUP),
        ("", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_nothing_outlives_the_launcher(
    mark: str, ending: str, how: signal.Signals | None, status: int
) -> None:
    with parent(mark, ending) as process:
        server = psutil.Process(int(line_of(process)))
        backends = server.children()
        (directory,) = directories(mark)
        segment = (directory / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
        assert len(backends) > 3
        assert {server, *backends} <= set(processes(mark))
        assert segment in shared_memory_segments()
        if how:
            os.killpg(process.pid, how)
        _, errors = process.communicate("\n")
    assert process.returncode == status
    assert "LOG:" not in errors
    wait_for_nothing_left(mark)
    assert segment not in shared_memory_segments()


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 3, 5, 10, 30, 60, 100, 150, 200, 250, 300, 400])
def test_nothing_outlives_a_launcher_killed_while_it_starts(mark: str, milliseconds: int) -> None:
    with parent(mark) as process:
        time.sleep(milliseconds / 1000)
        process.kill()
    wait_for_nothing_left(mark)


def test_settings_reach_the_server(start_server: StartServer) -> None:
    server = start_server({"max_locks_per_transaction": 128, "search_path": 'it\'s, "quoted"'})
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        assert connection.execute("SHOW max_locks_per_transaction").fetchone() == ("128",)
        assert connection.execute("SHOW search_path").fetchone() == ('it\'s, "quoted"',)
        assert connection.execute("SHOW fsync").fetchone() == ("off",)
        assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_encoding(start_server: StartServer, encoding: str) -> None:
    with psycopg.connect(start_server(encoding=encoding).dsn()) as connection:
        assert connection.info.parameter_status("server_encoding") == encoding


def test_without_a_password_everybody_is_trusted(start_server: StartServer) -> None:
    server = start_server()
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN")
    with psycopg.connect(server.dsn(user="app", host=str(server.directory))) as connection:
        assert connection.execute("SELECT current_user").fetchone() == ("app",)


def test_with_a_password_each_login_needs_one(start_server: StartServer) -> None:
    server = start_server(password="it's secret")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("CREATE ROLE app LOGIN PASSWORD 'other'")
    psycopg.connect(server.dsn(user="app", password="other")).close()
    with pytest.raises(psycopg.OperationalError, match="no password supplied"):
        psycopg.connect(server.dsn(user="app"))
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(server.dsn(password="wrong", host=str(server.directory)))


def test_without_tcp_only_the_socket_is_open(start_server: StartServer) -> None:
    server = start_server(tcp=False)
    assert server.directory.stat().st_mode & 0o777 == 0o700
    psycopg.connect(server.dsn()).close()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(server.dsn(host="127.0.0.1"))


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate"])
def test_a_restart_keeps_data_and_address(start_server: StartServer, mode: StopMode) -> None:
    server = start_server()
    dsn = server.dsn()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    server.stop(mode)
    with pytest.raises(psycopg.OperationalError, match="refused"):
        psycopg.connect(dsn)
    server.start()
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_a_killed_server_recovers(start_server: StartServer) -> None:
    server = start_server()
    with psycopg.connect(server.dsn(), autocommit=True) as cut:
        cut.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        server.kill()
        server.start()
        with pytest.raises(psycopg.OperationalError):
            cut.execute("SELECT 1")
    with psycopg.connect(server.dsn()) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)


def test_a_standby_follows_and_is_promoted(start_server: StartServer) -> None:
    primary = start_server()
    with primary.standby() as standby, psycopg.connect(standby.dsn(), autocommit=True) as there:
        with psycopg.connect(primary.dsn(), autocommit=True) as here:
            here.execute("CREATE TABLE copied ()")
        wait_until(lambda: there.execute("SELECT to_regclass('copied')").fetchone() != (None,), "the copy")
        assert there.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
        primary.kill()
        assert there.execute("SELECT pg_promote()").fetchone() == (True,)
        assert there.execute("SELECT pg_is_in_recovery()").fetchone() == (False,)


@pytest.mark.requires("root")
def test_programs_in_a_closed_directory_are_copied(tmp_path: Path) -> None:
    package = bindir().parents[1]
    for tree in (package, package.with_name(package.name + ".libs")):
        if tree.is_dir():
            shutil.copytree(tree, tmp_path / tree.name, symlinks=True)
    tmp_path.chmod(0o700)
    with TemporaryServer(bindir=tmp_path / bindir().relative_to(package.parent)) as server:
        assert server.bindir.is_relative_to(server.directory)
        psycopg.connect(server.dsn()).close()
    assert not server.directory.exists()


def test_a_bad_setting_is_one_sentence() -> None:
    with (
        pytest.raises(ServerUnavailable) as raised,
        TemporaryServer(bindir=bindir(), settings={"nonsense": 1}),
    ):
        pass
    assert str(raised.value).startswith("PostgreSQL did not start: ")
    assert 'unrecognized configuration parameter "nonsense"' in str(raised.value)
    assert str(raised.value).isprintable()


def test_a_bad_encoding_is_one_sentence() -> None:
    with pytest.raises(
        ServerUnavailable, match=r'^initdb failed: .*"NONE" is not a valid server encoding name'
    ):
        TemporaryServer(bindir=bindir(), encoding="NONE").__enter__()


def test_a_machine_without_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "find_spec", lambda _: None)
    monkeypatch.setattr(Path, "is_file", lambda _: False)
    with pytest.raises(ServerUnavailable, match=r"pip install 'pglock-inspect\[demo\]'"):
        TemporaryServer()

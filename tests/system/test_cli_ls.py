from __future__ import annotations

import csv
import json
import os
import pty
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import psycopg
import pytest

import pglock_inspect
from pglock_inspect.present.cells import width
from tests.support.command import COMMAND, Pglock
from tests.support.snapshots import begin_waiting
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connect, Connection, StartServer

SCHEMA = json.loads((Path(pglock_inspect.__file__).parent / "data" / "report.schema.json").read_text())


class Scene:
    """Two sessions and `send_daily_digest`: one holds it, the other one waits."""

    def __init__(self, connect: Connect, janitor: Connection) -> None:
        self.holder = connect("worker-1")
        self.waiter = connect("worker-2")
        self.holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()
        wait_until(
            lambda: (
                janitor.execute(
                    "SELECT FROM pg_locks WHERE pid = %s AND NOT granted", [self.waiting]
                ).rowcount
            ),
            "the second session waits",
        )

    def _wait(self) -> None:
        self.waiter.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")

    @property
    def holding(self) -> int:
        return self.holder.info.backend_pid

    @property
    def waiting(self) -> int:
        return self.waiter.info.backend_pid

    def end(self) -> None:
        self.holder.close()
        self._thread.join()


@pytest.fixture
def scene(connect: Connect, janitor: Connection) -> Iterator[Scene]:
    scene = Scene(connect, janitor)
    yield scene
    scene.end()


def document_of(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    jsonschema.validate(document, SCHEMA)
    return document


def test_json_names_the_job_and_shows_who_waits_for_whom(pglock: Pglock, scene: Scene) -> None:
    document = document_of(pglock("ls", "--format", "json", "--job", "send_daily_digest").stdout)
    holder, waiter = sorted(document["locks"], key=lambda lock: not lock["granted"])
    assert holder["job"] == waiter["job"] == "send_daily_digest"
    assert holder["key"].items() >= {"classid": 4294967295, "objid": 2337752054, "value": -1957215242}.items()
    assert holder["session"]["pid"] == scene.holding
    assert holder["waiters"] == 1
    assert waiter["session"]["pid"] == scene.waiting
    assert waiter["blocked_by"] == [scene.holding]


def test_a_waiter_that_only_queues_stands_behind_another(
    pglock: Pglock, connect: Connect, janitor: Connection
) -> None:
    connect().execute("SELECT pg_advisory_lock_shared(7)")
    first, second = connect(), connect()
    begin_waiting(first, "SELECT pg_advisory_lock(7)", janitor)
    begin_waiting(second, "SELECT pg_advisory_lock_shared(7)", janitor)
    heading, *rows = pglock("ls").stdout.splitlines()[2:6]
    start = heading.index("BLOCKED BY")
    (row,) = (row for row in rows if str(second.info.backend_pid) in row[:start].split())
    assert row[start:].startswith(f"behind {first.info.backend_pid}  ")


@pytest.mark.usefixtures("scene")
def test_a_table_of_forty_columns(pglock: Pglock) -> None:
    pglock.directory.joinpath("pglock-inspect.toml").write_text('[[jobs]]\nname = "send_daily_digest"\n')
    lines = pglock("ls", env={"COLUMNS": "40"}).stdout.splitlines()
    assert max(map(width, lines)) <= 40
    assert any(line.split()[:2] == ["send_daily_digest", "held"] for line in lines)


def test_in_latin_1_nothing_fails(pglock: Pglock, scene: Scene) -> None:
    scene.holder.execute("SELECT pg_advisory_lock(1) /* отчёт été */")
    table = pglock("ls", env={"PYTHONIOENCODING": "latin-1"}).stdout
    assert "????? \udce9t\udce9" in table  # what latin-1 has is there, as bytes that are no UTF-8
    document_of(pglock("ls", "--format", "json", env={"PYTHONIOENCODING": "latin-1"}).stdout)


@pytest.mark.usefixtures("scene")
@pytest.mark.parametrize(
    "variables", [{"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}]
)
def test_a_terminal_gets_color_where_it_wants_some(pglock: Pglock, variables: dict[str, str]) -> None:
    leader, follower = pty.openpty()
    env = pglock.environment(COLUMNS="80", **variables)
    done = subprocess.run([*COMMAND, "ls"], cwd=pglock.directory, env=env, stdout=follower, check=True)
    os.close(follower)
    with os.fdopen(leader, "rb") as screen:
        text = screen.read1().decode()
    assert done.returncode == 0
    assert ("\x1b[" in text) == (variables == {"TERM": "xterm"})


def test_filters(pglock: Pglock, connect: Connect, database: str, scene: Scene) -> None:
    elsewhere = connect(dbname=database)
    elsewhere.execute("SELECT pg_advisory_lock(42)")

    def pids(*filters: str) -> set[int]:
        locks = [json.loads(line) for line in pglock("ls", "--format", "jsonl", *filters).stdout.splitlines()]
        return {lock["session"]["pid"] for lock in locks}

    assert pids() >= {scene.holding, scene.waiting, elsewhere.info.backend_pid}
    assert pids("--database", database) == {elsewhere.info.backend_pid}
    assert pids("--job", "send_daily_digest") == {scene.holding, scene.waiting}
    assert pids("--waiting") == {scene.holding, scene.waiting}
    assert pids("--stale") == set()


def test_csv_and_json_lines(pglock: Pglock, scene: Scene) -> None:
    rows = csv.DictReader(pglock("ls", "--format", "csv").stdout.splitlines())
    assert {row["pid"] for row in rows} == {str(scene.holding), str(scene.waiting)}
    lines = pglock("ls", "--format", "jsonl").stdout.splitlines()
    assert {json.loads(line)["session"]["pid"] for line in lines} == {scene.holding, scene.waiting}


def test_watching_goes_on_until_an_interrupt_that_is_quiet(pglock: Pglock, scene: Scene) -> None:
    watching = pglock.start("ls", "--watch", "--every", "100ms", "--format", "jsonl")
    assert watching.stdout
    first, second = (document_of(watching.stdout.readline()) for _ in range(2))
    assert first["taken_at"] < second["taken_at"]
    assert {lock["session"]["pid"] for lock in second["locks"]} == {scene.holding, scene.waiting}
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=10)
    assert (watching.returncode, err) == (130, "")


def test_watching_tells_once_of_a_server_that_goes_away_and_goes_on_when_it_is_back(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server()
    pglock = Pglock(tmp_path, server.dsn())
    watching = pglock.start("ls", "--watch", "--every", "100ms", "--format", "csv")
    assert watching.stdout
    assert watching.stderr
    assert watching.stdout.readline().startswith("target,")
    server.stop()
    first = watching.stderr.readline()
    assert first.startswith("pglock-inspect: cannot ")
    time.sleep(1)
    server.restart()
    with psycopg.connect(server.dsn(), autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(7)")
        assert f",{holder.info.backend_pid}," in watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        _, rest = watching.communicate(timeout=10)
    assert len(rest.splitlines()) < 5  # lost, then unreachable, then starting


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_quiet(pglock: Pglock, connect: Connect, unbuffered: str) -> None:
    connect().execute("SELECT count(pg_advisory_lock(key)) FROM generate_series(1, 3000) AS key")
    listing = pglock.start("ls", "--format", "jsonl", PYTHONUNBUFFERED=unbuffered)
    assert listing.stdout
    assert listing.stdout.readline()
    listing.stdout.close()
    listing.stdout = None
    _, err = listing.communicate(timeout=30)
    assert (listing.returncode, err) == (141, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [["ls"], ["--help"], ["ls", "--help"], ["--version"]])
def test_an_output_that_takes_no_more(pglock: Pglock, arguments: list[str], unbuffered: str) -> None:
    with Path("/dev/full").open("w") as full:
        command = [*COMMAND, *arguments]
        environment = pglock.environment(PYTHONUNBUFFERED=unbuffered)
        done = subprocess.run(
            command, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 3
    assert done.stderr == "pglock-inspect: the output cannot be written: No space left on device\n"


def test_a_job_that_nobody_knows(pglock: Pglock, scene: Scene) -> None:
    pglock.directory.joinpath("pglock-inspect.toml").write_text('[[jobs]]\nname = "send_daily_digest"\n')
    done = pglock("ls", "--job", "send_dayly_digest", code=3)
    assert done.stderr == (
        "pglock-inspect: no job 'send_dayly_digest' is configured or holds a lock:"
        " did you mean send_daily_digest?\n"
    )
    assert pglock("ls", "--job", "send_daily_digest").stderr == ""
    assert scene.holding


def test_targets(pglock: Pglock, scene: Scene) -> None:
    config = pglock.directory / "own.toml"
    config.write_text(
        f'[[targets]]\nname = "here"\ndsn = "{pglock.dsn}"\n'
        '[[targets]]\nname = "away"\ndsn = "host=127.0.0.1 port=1"\n'
    )
    done = pglock("--config", str(config), "ls", "--target", "all", "--format", "json", code=3)
    here, away = json.loads(done.stdout)
    assert (here["target"], away["target"]) == ("here", "away")
    assert {lock["session"]["pid"] for lock in here["locks"]} == {scene.holding, scene.waiting}
    assert away["server"] is None
    assert done.stderr.startswith("pglock-inspect: cannot connect to 127.0.0.1:1: ")
    assert "here" in pglock("ls", "--target", "here", "--config", str(config)).stdout


def test_a_names_query_that_fails_is_told_once_and_fails_no_poll(
    pglock: Pglock, connect: Connect, tmp_path: Path
) -> None:
    connect("worker").execute("SELECT pg_advisory_lock(5)")
    file = tmp_path / "given.toml"
    file.write_text('[defaults]\nnames_query = "SELECT nope"\n')
    done = pglock("ls", "--config", str(file))
    assert "held" in done.stdout
    assert done.stderr.count('names_query returns no names: column "nope" does not exist') == 1

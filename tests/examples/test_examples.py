"""The examples are programs that work: two replicas of each, on a real server."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from pglock_inspect.config import load_settings
from pglock_inspect.watch import Watcher
from tests.support.command import environment
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pglock_inspect.model import Lock
    from tests.support.servers import Connect, Connection

    Start = Callable[[str], list["Replica"]]

EXAMPLES = Path(__file__).parents[2] / "examples"
PAGE = (EXAMPLES / "README.md").read_text()
COMMANDS = dict(re.findall(r"^\| \[.*?\]\((\w+)\.py\) \| `(.*?)` \|", PAGE, re.MULTILINE))
JOB = "send_daily_digest"
BUSY, DONE = f"{JOB}: another replica is at it", f"{JOB}: done"
OLDEST_SERVER = {"django_command": 15}  # for Django 6
PATIENCE = 60  # seconds
END_BY_THEMSELVES = {"django_command", "sqlalchemy_connection"}


class Replica:
    """An example as a process, in a directory of its own with its log."""

    def __init__(self, command: str, directory: Path, dsn: str) -> None:
        program, *arguments = shlex.split(command)
        shutil.copytree(EXAMPLES, directory)
        self._log = directory / "log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name(program)), *arguments],
                cwd=directory,
                env=environment(directory, DATABASE_URL=dsn, TMPDIR=str(directory.parent)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    @property
    def address(self) -> str:
        said = wait_until(lambda: re.search(r"http://[\d.:]+", self.said), "it listens", timeout=PATIENCE)
        assert said
        return said[0]

    def end(self) -> None:
        """Ask it to end, unless it has, and leave none of its processes."""
        self.process.terminate()
        try:
            self.process.wait(timeout=PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            sys.stdout.write(self.said)  # for whoever looks at a test that fails


@pytest.fixture
def watcher(dsn: str) -> Iterator[Watcher]:
    """A watcher that knows of the job what the examples' configuration says."""
    settings = load_settings(config=None, environ={}, cwd=EXAMPLES)
    with Watcher(dsn, settings) as watcher:
        yield watcher


@pytest.fixture
def start(tmp_path: Path, dsn: str, janitor: Connection) -> Iterator[Start]:
    """Starts two replicas of an example, with the table that they write to."""
    create = re.search(r"CREATE TABLE .*?\)(?=')", PAGE)
    assert create
    janitor.execute(create[0].encode())
    with ExitStack() as ended:

        def start(example: str) -> list[Replica]:
            replicas = [Replica(COMMANDS[example], tmp_path / name, dsn) for name in ("one", "two")]
            for replica in replicas:
                ended.callback(replica.end)
            return replicas

        yield start
    janitor.execute("DROP TABLE digests")


@contextmanager
def nobody_writes(connect: Connect) -> Iterator[None]:
    """Keep a job that has begun from ending."""
    session = connect(autocommit=False)
    session.execute("LOCK TABLE digests")
    yield
    session.rollback()


def the_lock(watcher: Watcher) -> Lock | None:
    """The advisory lock that is held, if there is any: never more than one."""
    report = watcher.poll()
    assert report.error is None, report.error
    assert len(report.locks) < 2
    return next(iter(report.locks), None)


def test_every_example_is_on_the_page() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*COMMANDS, "digest"}


@pytest.mark.parametrize(
    "example",
    [pytest.param(name, marks=pytest.mark.postgres(OLDEST_SERVER.get(name, 12))) for name in COMMANDS],
)
def test_one_replica_of_two_runs_the_job(
    start: Start, connect: Connect, janitor: Connection, watcher: Watcher, example: str
) -> None:
    with nobody_writes(connect):
        replicas = start(example)
        wait_until(lambda: any(BUSY in replica.said for replica in replicas), "one is busy", timeout=PATIENCE)
        lock = the_lock(watcher)
        assert lock is not None
        assert lock.name is not None
        assert lock.name.text == JOB
        assert lock.held is not None
        assert lock.held.evidence == "stamp"
        writers = "SELECT count(*) FROM pg_locks WHERE relation = 'digests'::regclass AND NOT granted"
        assert janitor.execute(writers).fetchone() == (1,)
    wait_until(lambda: any(DONE in replica.said for replica in replicas), "one has run", timeout=PATIENCE)
    wait_until(lambda: the_lock(watcher) is None, "the lock is released", timeout=PATIENCE)
    assert janitor.execute("SELECT count(*) FROM digests").fetchone() == (1,)
    if example in END_BY_THEMSELVES:
        assert [replica.process.wait(timeout=PATIENCE) for replica in replicas] == [0, 0]
    for replica in replicas:
        replica.end()
        assert "Traceback" not in replica.said
    wait_until(lambda: the_lock(watcher) is None, "the lock is released", timeout=PATIENCE)


def test_fastapi_that_shuts_down_ends_its_run(
    start: Start, connect: Connect, janitor: Connection, watcher: Watcher
) -> None:
    with nobody_writes(connect):
        replicas = start("fastapi_lifespan")
        wait_until(lambda: any(BUSY in replica.said for replica in replicas), "one is busy", timeout=PATIENCE)
        runs, waits = sorted(replicas, key=lambda replica: BUSY in replica.said)
        for replica in replicas:  # which answer meanwhile
            with urlopen(replica.address) as page:
                assert page.read() == b'"Hello"'
        runs.end()
        assert "Application shutdown complete" in runs.said
        wait_until(lambda: waits.said.count(BUSY) and the_lock(watcher), "the other runs", timeout=PATIENCE)
    wait_until(lambda: DONE in waits.said, "the other has run", timeout=PATIENCE)
    assert DONE not in runs.said
    assert "Traceback" not in runs.said + waits.said
    assert janitor.execute("SELECT count(*) FROM digests").fetchone() == (1,)

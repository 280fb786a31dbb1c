"""What the page about the lock helper says is so, and its snippets run."""

from __future__ import annotations

import ast
import asyncio
import re
import signal
import time
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import pglock_inspect
from pglock_inspect import LockError, LockLost, errors
from pglock_inspect.lock import Options, base
from tests.postgres.lock.conftest import advisory_locks, locked_by_hand
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from tests.support.servers import Connect, Connection

    Run = Callable[[str, dict[str, Any]], None]

DOCS = Path(__file__).parents[3] / "docs"
PAGE, README = ((DOCS / name).read_text() for name in ("lock.md", "../README.md"))
KEY = "hashtext('send_daily_digest')"
LOCK_AND_STAMP = ["ExclusiveLock", "ShareLock"]
KILL = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"


def blocks(text: str, language: str) -> list[str]:
    found = re.findall(rf"^ *```{language}\n.*?^ *```", text, re.MULTILINE | re.DOTALL)
    return [dedent(block).partition("\n")[2].removesuffix("```") for block in found]


(IN_README,) = blocks(README, "python")
SHORTEST, IN_A_TRANSACTION, WITH_A_WAIT, WHILE_HELD, STOP, CANCEL, THROUGH_A_POOLER = blocks(PAGE, "python")
SKIP_LOCKED, ONCE_A_DAY = blocks(PAGE, "sql")


def rows(heading: str) -> list[list[str]]:
    table = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]


class Job:
    """A job that tells what was locked while it ran."""

    def __init__(self, witness: Connection) -> None:
        self.locked: list[list[str]] = []
        self._witness = witness

    def __call__(self, *_: object) -> None:
        self.locked.append([lock[-1] for lock in advisory_locks(self._witness)])


@pytest.fixture
def job(janitor: Connection) -> Job:
    return Job(janitor)


@pytest.fixture
def run(dsn: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Run]:
    """Runs a snippet among these names, a connection, and a server that is called "service=app"."""
    service = "".join(f"{name}={value}\n" for name, value in conninfo_to_dict(dsn).items())
    (tmp_path / "services").write_text(f"[app]\n{service}")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    with psycopg.connect(dsn) as conn:

        def run(snippet: str, names: dict[str, Any]) -> None:
            names |= {name: getattr(pglock_inspect, name) for name in pglock_inspect.__all__}
            names["conn"] = names["connection"] = conn
            code = compile(snippet, "snippet", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if coroutine := eval(code, names):
                asyncio.run(coroutine)

        yield run


@pytest.mark.parametrize("snippet", [SHORTEST, IN_README, THROUGH_A_POOLER])
def test_the_shortest_use(
    run: Run, job: Job, connect: Connect, capsys: pytest.CaptureFixture[str], snippet: str
) -> None:
    run(snippet, {"send_digest": job})
    assert job.locked == [LOCK_AND_STAMP]
    with locked_by_hand(connect(), KEY):
        run(snippet, {"send_digest": job})
    assert len(job.locked) == 1
    assert capsys.readouterr().out == ("another replica is at it\n" if "print" in snippet else "")


def test_a_transaction_around_the_job(run: Run, connect: Connect) -> None:
    other = connect()
    other.execute("CREATE TABLE payments AS SELECT 40 AS amount UNION ALL SELECT 2")
    other.execute("CREATE TABLE ledger (day date, amount int)")
    try:
        run(IN_A_TRANSACTION, {})
        assert other.execute("SELECT amount FROM ledger").fetchall() == [(42,)]
        with locked_by_hand(other, "hashtext('close_the_books')"):
            run(IN_A_TRANSACTION, {})
        assert other.execute("SELECT count(*) FROM ledger").fetchone() == (1,)
    finally:
        other.execute("DROP TABLE payments, ledger")


def test_a_check_before_what_cannot_be_taken_back(run: Run, job: Job, janitor: Connection) -> None:
    run(WITH_A_WAIT, {"write_digest": int, "send": job})
    assert job.locked == [LOCK_AND_STAMP]
    with pytest.raises(LockLost):
        run(WITH_A_WAIT, {"write_digest": lambda: janitor.execute(KILL), "send": job})
    assert len(job.locked) == 1


def test_a_loop_that_ends_with_its_lock(run: Run, job: Job, connect: Connect, janitor: Connection) -> None:
    names: dict[str, Any] = {"subscribers": [1, 2, 3], "send_to": job}
    run(WHILE_HELD, names)
    assert (names["subscribers"], job.locked) == ([], [LOCK_AND_STAMP] * 3)

    names["subscribers"] = [1, 2, 3]
    with locked_by_hand(connect(), KEY):
        run(WHILE_HELD, names)
    assert len(names["subscribers"]) == 3

    def lose(_: int) -> None:
        janitor.execute(KILL)
        wait_until(lambda: not names["lock"], "the loss is known")

    names["send_to"] = lose
    with pytest.raises(LockLost):
        run(WHILE_HELD, names)
    assert len(names["subscribers"]) == 2


def test_a_program_that_is_stopped(run: Run, job: Job, janitor: Connection) -> None:
    class Stopped(BaseException):
        """What a SIGTERM makes of the program."""

    def stopped(_: int, __: FrameType | None) -> None:
        raise Stopped

    def lose() -> None:
        janitor.execute(KILL)
        time.sleep(30)

    before = signal.signal(signal.SIGTERM, stopped)
    try:
        run(STOP, {"send_digest": job})
        assert job.locked == [LOCK_AND_STAMP]
        with pytest.raises(Stopped) as stop:
            run(STOP, {"send_digest": lose})
    finally:
        signal.signal(signal.SIGTERM, before)
    assert "was lost while the job ran" in stop.value.__notes__[0]


def test_a_task_that_is_cancelled(run: Run, job: Job, janitor: Connection) -> None:
    async def send() -> None:
        job()

    async def lose() -> None:
        janitor.execute(KILL)
        await asyncio.sleep(30)

    run(CANCEL, {"asend_digest": send})
    assert job.locked == [LOCK_AND_STAMP]
    with pytest.raises(asyncio.CancelledError) as cancelled:
        run(CANCEL, {"asend_digest": lose})
    assert "was lost while the job ran" in cancelled.value.__notes__[0]


def test_the_alternatives(connect: Connect) -> None:
    one, two = connect(autocommit=False), connect(autocommit=False)
    try:
        one.execute(
            "CREATE TABLE mails AS SELECT id, null::date AS sent_at FROM generate_series(1, 15) AS id"
        )
        one.execute("CREATE TABLE digests (day date PRIMARY KEY)")
        one.commit()
        taken = [session.execute(SKIP_LOCKED.encode()).fetchall() for session in (one, two)]
        assert [len(mails) for mails in taken] == [10, 5]
        assert [one.execute(ONCE_A_DAY.encode()).rowcount for _ in range(2)] == [1, 0]
    finally:
        one.rollback()
        two.rollback()
        one.execute("DROP TABLE IF EXISTS mails, digests")
        one.commit()


def test_every_option_and_every_error_has_its_row() -> None:
    assert sorted(row[0].strip("`") for row in rows("Options")) == sorted(Options.__annotations__)
    ours = {name for name, one in vars(errors).items() if one in LockError.__subclasses__()}
    assert {row[0].strip("`") for row in rows("Errors")} == ours


def test_the_seconds_are_those_of_the_code() -> None:
    assert (base.TICK, base.BEAT, base.DEADLINE, base.LEASE) == (0.2, 5, 5, 30)
    for sentence in ("noticed within 0.2 s", "Every 5 s", "has 5 s to answer", "nothing for 30 s, the lease"):
        assert sentence in " ".join(PAGE.split())

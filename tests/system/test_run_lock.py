"""Which lock `run` takes, what it does where another has it, and what it says where none is to be had."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.command import Pglock
from tests.support.pooler import pgbouncer
from tests.support.running import IDLE, running
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Connect, Connection

JOB = "send_daily_digest"
KEYS = """SELECT classid::bigint, objid::bigint, objsubid FROM pg_locks
          WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted"""
BUSY = f"SELECT pg_advisory_lock(hashtext('{JOB}'))"
WAITERS = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
LEVELS = pytest.mark.parametrize("level", [[], ["--xact"]], ids=["session", "xact"])


@LEVELS
class TestALockThatIsHeld:
    def test_is_skipped(self, pglock: Pglock, connect: Connect, level: list[str]) -> None:
        connect().execute(BUSY)
        done = pglock("run", JOB, *level, "--", "echo", "ran", code=0)
        assert (done.stdout, done.stderr) == ("", f"pglock-inspect: {JOB} is busy: skipped\n")

    def test_is_skipped_without_a_word(self, pglock: Pglock, connect: Connect, level: list[str]) -> None:
        connect().execute(BUSY)
        done = pglock("run", JOB, *level, "--on-busy", "quiet", "--", "echo", "ran", code=0)
        assert (done.stdout, done.stderr) == ("", "")

    def test_fails(self, pglock: Pglock, connect: Connect, level: list[str]) -> None:
        connect().execute(BUSY)
        for code, options in ((75, []), (9, ["--busy-exit-code", "9"])):
            done = pglock("run", JOB, *level, "--on-busy", "fail", *options, "--", "echo", "ran", code=code)
            assert (done.stdout, done.stderr) == ("", f"pglock-inspect: {JOB} is busy: skipped\n")

    def test_is_waited_for_in_vain(self, pglock: Pglock, connect: Connect, level: list[str]) -> None:
        connect().execute(BUSY)
        done = pglock("run", "--wait", "200ms", JOB, *level, "--on-busy", "fail", "--", "true", code=75)
        assert done.stderr == f"pglock-inspect: {JOB} is busy after 200 ms: skipped\n"

    def test_is_waited_for(
        self, pglock: Pglock, connect: Connect, janitor: Connection, level: list[str]
    ) -> None:
        holder = connect()
        holder.execute(BUSY)
        with pglock.start("run", JOB, *level, "--wait", "30s", "--", "echo", "ran") as waiter:
            wait_until(lambda: janitor.execute(WAITERS).fetchall(), "it waits")
            holder.close()
            assert waiter.communicate(timeout=30) == ("ran\n", "")
            assert waiter.returncode == 0

    def test_a_signal_ends_the_wait(
        self, pglock: Pglock, connect: Connect, janitor: Connection, level: list[str]
    ) -> None:
        connect().execute(BUSY)
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with pglock.start("run", JOB, *level, "--wait", "1h", "--", "echo", "ran") as waiter:
                wait_until(lambda: janitor.execute(WAITERS).fetchall(), "it waits")
                waiter.send_signal(signum)
                assert waiter.communicate(timeout=30) == ("", "")
                assert waiter.returncode == 128 + signum
        wait_until(lambda: len(janitor.execute(KEYS).fetchall()) == 1, "nobody waits")

    def test_that_many_wait_for_is_given_to_one_at_a_time(
        self, pglock: Pglock, level: list[str], tmp_path: Path
    ) -> None:
        """A directory is made and removed by each that runs, and can be there once."""
        script = f"mkdir {tmp_path}/alone && sleep 0.05 && rmdir {tmp_path}/alone && echo ran"
        runs = [pglock.start("run", JOB, *level, "--wait", "60s", "--", "sh", "-c", script) for _ in range(8)]
        assert [run.communicate(timeout=120) for run in runs] == [("ran\n", "")] * len(runs)


class TestTheKeyIs:
    def test_that_of_the_name(self, pglock: Pglock, janitor: Connection) -> None:
        assert keys(pglock, janitor, JOB) == [(4294967295, 2337752054, 1)]
        assert keys(pglock, janitor, JOB, "--scheme", "hashtextextended") == key(
            janitor, f"hashtextextended('{JOB}', 0)"
        )

    def test_as_configured(self, pglock: Pglock, janitor: Connection) -> None:
        (pglock.directory / "pglock-inspect.toml").write_text(
            """
            [[jobs]]
            name = "pair"
            key = [42, -7]
            [[jobs]]
            name = "number"
            key = -1
            [[jobs]]
            name = "hashed"
            scheme = "hashtextextended"
            [[jobs]]
            name = "many"
            key = [7, "*"]
            """
        )
        assert keys(pglock, janitor, "pair") == [(42, 2**32 - 7, 2)]
        assert keys(pglock, janitor, "number") == [(2**32 - 1, 2**32 - 1, 1)]
        assert keys(pglock, janitor, "hashed") == key(janitor, "hashtextextended('hashed', 0)")
        done = pglock("run", "many", "--", "true", code=64)
        assert "the job many is configured to be more than one lock" in done.stderr

    @pytest.mark.parametrize(
        "name", ["größe", "a'b\\c", "-- x", "--xact", "\x1b[31mred\n", "%s %(a)s", "x" * 5000, "null", "😀"]
    )
    def test_that_of_a_hostile_name(self, pglock: Pglock, janitor: Connection, name: str) -> None:
        (expected,) = janitor.execute("SELECT hashtext(%s)", [name]).fetchone() or ()
        assert keys(pglock, janitor, name) == [(2**32 - 1 if expected < 0 else 0, expected % 2**32, 1)]
        janitor.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
        try:
            said = pglock("run", "--", name, "--", "true").stderr
        finally:
            janitor.execute("SELECT pg_advisory_unlock_all()")
        assert said.rstrip("\n").isprintable()
        assert len(said) < 150


def keys(pglock: Pglock, janitor: Connection, name: str, *options: str) -> list[tuple[int, int, int]]:
    dashes = ["--"] if name.startswith("-") else []
    with running(pglock, *options, *dashes, name, "--", "sh", "-c", IDLE) as run:
        found = janitor.execute(KEYS).fetchall()
        run.send(signal.SIGTERM)
        assert run.wait() == 9
    return found


def key(janitor: Connection, arguments: str) -> list[tuple[int, int, int]]:
    janitor.execute(f"SELECT pg_advisory_lock({arguments})".encode())
    found = janitor.execute(KEYS).fetchall()
    janitor.execute("SELECT pg_advisory_unlock_all()")
    return found


def test_the_session_is_named_and_stamped(pglock: Pglock) -> None:
    with running(pglock, JOB, "--", "sh", "-c", IDLE):
        shown = pglock("ls", "--format", "json").stdout
    assert '"evidence": "stamp"' in shown.replace('":"', '": "')
    assert f'"application_name":"{JOB}"' in shown.replace('": "', '":"')


class TestAPooler:
    @pytest.mark.requires("pgbouncer")
    def test_of_transactions_is_refused_and_works_with_xact(self, dsn: str, tmp_path: Path) -> None:
        with pgbouncer(dsn, "transaction", pool_size=2) as through:
            pglock = Pglock(tmp_path, through)
            done = pglock("run", JOB, "--", "echo", "ran", code=69)
            assert done.stdout == ""
            assert (
                "a pooler such as PgBouncer makes a session-level lock of send_daily_digest unsafe"
                in done.stderr
            )
            with running(pglock, JOB, "--xact", "--", "sh", "-c", IDLE) as run:
                assert pglock("run", JOB, "--xact", "--", "echo", "ran").stdout == ""
                run.send(signal.SIGTERM)
                assert run.wait() == 9
            assert pglock("run", JOB, "--xact", "--", "echo", "ran").stdout == "ran\n"

    @pytest.mark.requires("pgbouncer")
    def test_of_sessions_is_allowed(self, dsn: str, tmp_path: Path) -> None:
        with pgbouncer(dsn, "session", pool_size=2) as through:
            pglock = Pglock(tmp_path, through)
            with running(pglock, JOB, "--pooler", "allow", "--", "sh", "-c", IDLE):
                assert "is busy" in pglock("run", JOB, "--pooler", "allow", "--", "true").stderr

    @pytest.mark.requires("pgbouncer")
    def test_holds_a_transaction_until_the_program_of_a_killed_run_is_gone(
        self, dsn: str, tmp_path: Path, janitor: Connection
    ) -> None:
        script = "trap 'sleep 0.5; exit' TERM; echo started; while :; do sleep 0.05; done"
        with pgbouncer(dsn, "transaction", pool_size=2) as through:
            pglock = Pglock(tmp_path, through)
            with running(pglock, JOB, "--xact", "--", "sh", "-c", script) as run:
                program = run.program
                run.send(signal.SIGKILL)
                janitor.execute("SET lock_timeout = '20s'")
                janitor.execute(BUSY)
                assert not program.is_running()
                janitor.execute("SELECT pg_advisory_unlock_all()")


class TestItSaysWhatIsWrong:
    @pytest.mark.parametrize(
        ("arguments", "code", "sentence"),
        [
            ([JOB, "true"], 64, "put -- between the job and its command (see 'pglock-inspect run --help')"),
            ([JOB, "--"], 64, "missing argument '-- COMMAND...' (see 'pglock-inspect run --help')"),
            ([], 64, "missing argument 'JOB' (see 'pglock-inspect run --help')"),
            (["", "--", "true"], 64, "a job's name must not be empty"),
            ([JOB, "--", ""], 64, "the command behind -- is empty"),
            ([JOB, "--wait", "5", "--", "true"], 64, "invalid value for '--wait'"),
            ([JOB, "--kill-after", "13h", "--", "true"], 64, "'13h' is too long: write at most 12 h"),
            ([JOB, "--scheme", "md6", "--", "true"], 64, "md6"),
            ([JOB, "--on-busy", "x", "--", "true"], 64, "invalid value for '--on-busy'"),
            ([JOB, "--target", "x", "--", "true"], 64, "no targets are configured"),
            (
                [JOB, "--dsn", "host=x secret", "--", "true"],
                64,
                "--dsn: the connection string cannot be read",
            ),
            ([JOB, "--dsn", "host=127.0.0.1 port=1 password=secret", "--", "true"], 69, "Connection refused"),
            ([JOB, "--dsn", "host=a..b password=secret", "--", "true"], 69, "cannot"),
        ],
    )
    def test_in_a_sentence(self, pglock: Pglock, arguments: list[str], code: int, sentence: str) -> None:
        done = pglock("run", *arguments, code=code)
        assert done.stdout == ""
        assert sentence in done.stderr
        assert done.stderr.startswith("pglock-inspect: ")
        assert done.stderr.count("\n") == 1
        assert "secret" not in done.stderr

    def test_of_a_login_that_is_refused(self, pglock: Pglock, dsn: str) -> None:
        done = pglock("run", JOB, "--dsn", f"{dsn} user=nobody-at-all password=secret", "--", "true", code=69)
        assert 'role "nobody-at-all" does not exist' in done.stderr
        assert "secret" not in done.stderr

"""The program that `run` runs: it is what it would be without, and so is how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.support.command import COMMAND, Pglock
from tests.support.running import UNTIL_GO, Running, gone, running
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connection

JOB = "send_daily_digest"
SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]


def run(pglock: Pglock, *command: str, code: int = 0, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return pglock("run", JOB, "--", *command, code=code, stdin=stdin)


def shell(pglock: Pglock, line: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of a shell in which `$run` runs a program under the lock."""
    environment = {**pglock.environment(), "run": " ".join([*COMMAND, "run", JOB, "--"])}
    return subprocess.run(
        ["bash", "-c", line],
        cwd=pglock.directory,
        env=environment,
        capture_output=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("exit 76", 76), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_the_exit_code_is_the_program_s(pglock: Pglock, script: str, code: int) -> None:
    done = run(pglock, "sh", "-c", script, code=code)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_program_that_cannot_be_started(pglock: Pglock) -> None:
    script = pglock.directory / "script"
    script.write_text("#!/nowhere/at/all\n")
    cannot = "pglock-inspect: {} cannot be started: {}\n"
    nowhere = cannot.format("nonesuch", "No such file or directory")
    assert run(pglock, "nonesuch", code=127).stderr == nowhere
    assert run(pglock, "./script", code=126).stderr == cannot.format("./script", "Permission denied")
    script.chmod(0o755)
    run(pglock, "./script", code=127)
    script.write_bytes(b"\x7fELF nonsense")
    assert run(pglock, "./script", code=126).stderr == cannot.format("./script", "Exec format error")
    assert run(pglock, "\x1b[31mevil", code=127).stderr.startswith(r"pglock-inspect: \x1b[31mevil cannot")


def test_arguments_and_directory_are_untouched(pglock: Pglock) -> None:
    code = "import os, sys; print(ascii(sys.argv[1:]), os.getcwd())"
    arguments = ["--", "-h", "--help", "--dsn", "", "a b", "$HOME", "größe", "\x1b"]
    done = run(pglock, sys.executable, "-c", code, *arguments)
    assert done.stdout == f"{arguments!a} {pglock.directory}\n"


def test_streams_are_untouched(pglock: Pglock) -> None:
    done = shell(pglock, r"printf 'a\0b\377' | $run sh -c 'cat; printf \\376 >&2'")
    assert (done.stdout, done.stderr) == (b"a\0b\xff", b"\xfe")


def test_files_that_are_open_stay_open_and_ours_do_not_show(pglock: Pglock) -> None:
    line = "$run sh -c 'ls /proc/self/fd; cat <&5; cat \"$0\"' <(echo substituted) 5<<<'five'"
    done = shell(pglock, line).stdout
    assert done == shell(pglock, line.replace("$run ", "")).stdout
    assert done.endswith(b"five\nsubstituted\n")


def test_the_environment_is_untouched(pglock: Pglock) -> None:
    for bare in ({}, {"LC_CTYPE": "C.UTF-8"}, {"LANG": "POSIX", "PYTHONUNBUFFERED": "1"}):
        environment = {
            "PGLOCK_DSN": str(pglock.dsn),
            "PYTHONPATH": pglock.environment()["PYTHONPATH"],
            **bare,
        }
        command = [*COMMAND, "run", JOB, "--", "/usr/bin/env"]
        printed = subprocess.check_output(command, env=environment, cwd=pglock.directory, text=True)
        assert dict(line.split("=", 1) for line in printed.splitlines()) == environment


def test_streams_that_are_closed_do_no_harm(pglock: Pglock) -> None:
    assert shell(pglock, "$run sh -c 'exit 5' <&- >&- 2>&-").returncode == 5
    assert shell(pglock, "$run sh -c 'exit 6' <&-").returncode == 6


def test_a_signal_that_was_ignored_stays_so(pglock: Pglock) -> None:
    """As `nohup` and background jobs have it, and as programs that start others leave SIGCHLD."""
    line = "trap '' HUP INT QUIT USR1 CHLD; exec $run sh -c 'grep SigIgn /proc/self/status; exit 4'"
    done = shell(pglock, line)
    ignored = int(done.stdout.split()[1], 16)
    assert done.returncode == 4
    assert {s for s in SIGNALS if ignored >> (s - 1) & 1} == {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGUSR1,
    }
    untouched = shell(pglock, "grep SigIgn /proc/self/status; $run grep SigIgn /proc/self/status")
    assert len({*untouched.stdout.splitlines()}) == 1


def test_no_signal_is_blocked(pglock: Pglock) -> None:
    assert not int(shell(pglock, "$run grep SigBlk /proc/self/status").stdout.split()[1], 16)


@pytest.mark.parametrize("signum", SIGNALS)
def test_signals_are_passed_on(pglock: Pglock, signum: signal.Signals) -> None:
    names = " ".join(s.name.removeprefix("SIG") for s in SIGNALS)
    script = (
        f'for s in {names}; do trap "echo $s; exit 3" $s; done; echo started; while :; do sleep 0.05; done'
    )
    with running(pglock, JOB, "--", "sh", "-c", script) as job:
        job.send(signum)
        assert job.stdout.readline() == signum.name.removeprefix("SIG") + "\n"
        assert job.wait() == 3


@pytest.mark.parametrize("signum", SIGNALS)
def test_signals_end_a_program_that_does_not_handle_them(pglock: Pglock, signum: signal.Signals) -> None:
    with running(pglock, JOB, "--", "sh", "-c", "echo started; exec sleep 60") as job:
        job.send(signum)
        assert job.wait() == 128 + signum


def test_a_shell_s_children_hear_what_is_for_all(pglock: Pglock) -> None:
    child = 'trap "echo told" TERM; trap "echo message" USR1; echo started; sleep 2 & wait; wait; sleep 0.1'
    with running(
        pglock, JOB, "--", "sh", "-c", f"trap '' TERM USR2; trap : USR1; sh -c '{child}'; exit 3"
    ) as job:
        job.send(signal.SIGUSR1)
        job.send(signal.SIGTERM)
        job.wait()
        assert "message" not in job.stdout.read()


def test_stop_and_continue(pglock: Pglock, janitor: Connection) -> None:
    with running(pglock, JOB, "--", "sh", "-c", "echo started; exec sleep 60") as job:
        job.send(signal.SIGTSTP)
        wait_until(lambda: job.program.status() == psutil.STATUS_STOPPED, "the program is stopped")
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        assert janitor.execute(held).fetchone() == (2,)  # without a terminal, `run` itself goes on
        job.send(signal.SIGCONT)
        wait_until(lambda: job.program.status() == psutil.STATUS_SLEEPING, "the program goes on")
        job.send(signal.SIGTERM)
        assert job.wait() == 143


def test_what_is_left_running_is_ended_before_the_lock_is_free(pglock: Pglock, janitor: Connection) -> None:
    left = "sh -c 'trap \"sleep 0.3; echo ended\" TERM; sleep 60 & wait' & timeout 60 sleep 60 &"
    with running(pglock, JOB, "--", "sh", "-c", f"{left} {UNTIL_GO}") as job:
        wait_until(
            lambda: shown(job).splitlines().count("sleep 60") == 3, "both are at work"
        )  # `timeout` is one, too
        family = job.family[1:]
        (pglock.directory / "go").touch()
        assert job.wait() == 0
        assert all(map(gone, family))
        assert "ended" in job.stdout.read()
    assert not janitor.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'").fetchall()


def test_what_does_not_end_by_itself_is_killed(pglock: Pglock) -> None:
    left = "sh -c 'trap \"\" TERM; touch ready; while :; do sleep 0.05; done' &"
    with running(pglock, JOB, "--kill-after", "300ms", "--", "sh", "-c", f"{left} {UNTIL_GO}") as job:
        wait_until((pglock.directory / "ready").exists, "it is at work")
        (pglock.directory / "go").touch()
        assert job.wait() == 0
        assert not [
            process for process in psutil.process_iter() if "touch ready" in " ".join(cmdline(process))
        ]


def test_a_daemon_lives_on(pglock: Pglock) -> None:
    with running(pglock, JOB, "--", "sh", "-c", f"setsid sleep 7 & {UNTIL_GO}") as job:
        wait_until(lambda: "sleep 7" in shown(job), "the daemon has started")
        (daemon,) = (process for process in job.family if cmdline(process) == ["sleep", "7"])
        (pglock.directory / "go").touch()
        assert job.wait() == 0
        assert not gone(daemon)
        daemon.kill()


def shown(job: Running) -> str:
    return "\n".join(" ".join(cmdline(process)[-2:]) for process in job.family)


def cmdline(process: psutil.Process) -> list[str]:
    with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
        return process.cmdline()
    return []


def test_no_zombie_stays(pglock: Pglock) -> None:
    """Orphans come to the guardian, as to the first process of a system."""
    with running(
        pglock, JOB, "--", "sh", "-c", "(sleep 0.1 &) ; (sleep 0.2 &) ; echo started; exec sleep 60"
    ) as job:
        wait_until(lambda: job.guardian.children() == [job.program], "the orphans are reaped")
        job.send(signal.SIGTERM)
        assert job.wait() == 143


@pytest.mark.requires("root", "unshare")
class TestAsTheFirstProcessOfAContainer:
    UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")

    @contextmanager
    def first(self, pglock: Pglock, *command: str) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            [*self.UNSHARE, *COMMAND, "run", JOB, "--", *command],
            env=pglock.environment(),
            cwd=pglock.directory,
            stdout=subprocess.PIPE,
            text=True,
        ) as first:
            try:
                yield first
            finally:
                first.kill()

    def test_signals_and_the_exit_code_pass(self, pglock: Pglock) -> None:
        with self.first(
            pglock, "sh", "-c", "trap 'echo told; exit 3' TERM; echo $PPID; sleep 60 & wait"
        ) as first:
            assert first.stdout
            assert int(first.stdout.readline()) in range(2, 10)
            (process,) = psutil.Process(first.pid).children()
            process.send_signal(signal.SIGTERM)
            assert first.stdout.readline() == "told\n"
            assert first.wait(30) == 3

    def test_orphans_of_others_are_reaped(self, pglock: Pglock) -> None:
        """Such as those of a command that was run in the container."""
        with self.first(pglock, "sh", "-c", "echo started; sleep 60") as first:
            assert first.stdout
            assert first.stdout.readline() == "started\n"
            (process,) = psutil.Process(first.pid).children()
            enter = ["nsenter", f"--target={process.pid}", "--pid", "--mount"]
            subprocess.run([*enter, "sh", "-c", "(sleep 1 &)"], check=True)
            wait_until(lambda: len(process.children()) == 2, "it has an orphan")
            wait_until(lambda: len(process.children()) == 1, "only the guardian is left")
            process.send_signal(signal.SIGTERM)
            assert first.wait(30) == 143


def test_a_line_of_a_crontab_needs_no_more_than_cron_gives(pglock: Pglock) -> None:
    """No terminal, a session of its own, hardly any environment."""
    environment = {
        "HOME": str(pglock.directory),
        "LOGNAME": "app",
        "PATH": os.defpath,
        "SHELL": "/bin/sh",
        "PGLOCK_DSN": str(pglock.dsn),
        "PYTHONPATH": pglock.environment()["PYTHONPATH"],
    }
    line = " ".join([*COMMAND, "run", JOB, "--on-busy", "quiet", "--", "echo", "hello"])
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        env=environment,
        cwd=pglock.directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        start_new_session=True,
        check=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("hello\n", "")


def test_a_directory_that_was_removed_does_no_harm(pglock: Pglock) -> None:
    done = shell(pglock, "mkdir gone && cd gone && rmdir ../gone && $run echo ran")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ran\n", b"")

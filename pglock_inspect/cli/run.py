"""``run``: runs a program under a job's lock."""

from __future__ import annotations

import errno
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import click
from typer import Argument, Option
from typer.core import TyperCommand

from pglock_inspect.cli.access import settings_of, sources_of
from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import RunCode
from pglock_inspect.cli.options import Access, Duration, configured, connection_options
from pglock_inspect.cli.output import talk
from pglock_inspect.durations import format_duration
from pglock_inspect.errors import (
    BadConnectionString,
    ConfigError,
    LockError,
    PoolerDetected,
)
from pglock_inspect.postgres import parse, where
from pglock_inspect.postgres.failures import failure_of
from pglock_inspect.present.text import printable
from pglock_inspect.schemes import scheme_named

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from pglock_inspect.config import Settings
    from pglock_inspect.run import Run
    from pglock_inspect.run.textfile import Outcome

_PATIENCE = 10  # seconds for a connection
_LONGEST_END = 12 * 3600.0  # seconds; keepalives cannot be set to wait for a lease of twice as long

app = command_app()


class RunsProgram(TyperCommand):
    """Takes a program's command line behind ``--``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; options behind the job's name would not be told from the program's without the dashes."""
        if args and "--" not in args and not ctx.resilient_parsing and not {"-h", "--help"} & {*args}:
            raise click.UsageError("put -- between the job and its command", ctx)
        rest = super().parse_args(ctx, args)
        first, *arguments = ctx.params.get("command") or [""]
        if first == "--":  # the ones before stood before a job whose name looks like an option
            ctx.params["command"] = arguments
        return rest


@app.command(cls=RunsProgram, short_help="Run a program while holding a job's lock.")
@connection_options
def run(
    access: Access,
    *,
    job: Annotated[str, Argument(metavar="JOB", autocompletion=configured("jobs"), show_default=False)],
    command: Annotated[list[str], Argument(metavar="-- COMMAND...", show_default=False)],
    wait: Annotated[
        float,
        Option(
            click_type=Duration(),
            metavar="DURATION",
            show_default=False,
            help="Wait for a lock that is held.",
        ),
    ] = 0.0,
    on_busy: Annotated[
        Literal["skip", "quiet", "fail"],
        Option(help="Where it is held: end with 0 and a line on stderr, with 0 and no line, or with 75."),
    ] = "skip",
    busy_exit_code: Annotated[
        int, Option(min=1, max=255, metavar="N", help="With --on-busy fail, instead of 75.")
    ] = RunCode.BUSY,
    xact: Annotated[
        bool, Option("--xact", help="Hold the lock by a transaction; works through a pooler.")
    ] = False,
    kill_after: Annotated[
        float,
        Option(
            click_type=Duration(most=_LONGEST_END),
            metavar="DURATION",
            show_default="10s",
            help="When the lock is lost, the time from SIGTERM to SIGKILL.",
        ),
    ] = 10.0,
    scheme: Annotated[
        str | None, Option(metavar="SCHEME", help="How the name becomes a key [hashtext, or as configured].")
    ] = None,
    pooler: Annotated[
        Literal["refuse", "allow"], Option(help="Allow one that pools sessions, not transactions.")
    ] = "refuse",
    textfile: Annotated[
        Path | None, Option(metavar="FILE", help="Note how it went, as metrics for the node exporter.")
    ] = None,
) -> int:
    """Run COMMAND while holding the lock of JOB, and end it if the lock is lost.

    Exit code: that of COMMAND, 128+N for a signal, 126 and 127 where it cannot be started; 0 or 75 where
    another holds the lock, 76 lost, 69 no lock to be had from the server, 64 wrong usage.
    """
    from pglock_inspect.run import Interrupted  # noqa: PLC0415

    if not command[0]:
        raise click.UsageError("the command behind -- is empty")
    try:
        if textfile:
            _textfile().check(textfile)
        settings = settings_of(access)
        lock = _key_of(job, scheme, settings)
        lock |= {"wait": timedelta(seconds=wait), "pooler": pooler, "transaction": xact}
        end = _run(_conninfo(access, settings), job, command, kill_after, lock)
    except Interrupted as interrupted:
        return RunCode.SIGNALED + interrupted.signum
    if end.outcome == "skipped":
        waited = f" after {format_duration(wait)}" if wait else ""
        end = _End("skipped", _busy_code(on_busy, busy_exit_code), f"{_short(job)} is busy{waited}: skipped")
    if end.message and not (end.outcome == "skipped" and on_busy == "quiet"):
        talk(end.message)
    if textfile:
        _note(textfile, job, end)
    return end.code


class _End(NamedTuple):
    outcome: Outcome
    code: int = 0
    message: str = ""
    seconds: float | None = None


def _run(conninfo: str, job: str, command: Sequence[str], kill_after: float, lock: dict[str, Any]) -> _End:
    import psycopg  # noqa: PLC0415

    from pglock_inspect.run import run_program  # noqa: PLC0415

    try:
        ran = run_program(conninfo, job, command, kill_after=kill_after, **lock)
    except PoolerDetected:
        reason = (
            f"a pooler such as PgBouncer makes a session-level lock of {_short(job)} unsafe: connect "
            "directly, give --xact, or --pooler allow if it pools sessions"
        )
    except LockError as error:
        reason = str(error)
    except UnicodeError:  # psycopg looks the host up itself
        reason = (
            f"cannot connect to {where(conninfo)}: that is no name of a host; correct the connection string"
        )
    except psycopg.Error as error:
        reason = str(failure_of(error, f"lock {_short(job)} on {where(conninfo)}", connecting=True))
    else:
        return _judged(job, command, ran) if ran else _End("skipped")
    return _End("unavailable", RunCode.UNAVAILABLE, reason)


def _judged(job: str, command: Sequence[str], ran: Run) -> _End:
    if ran.lost:
        reason = str(ran.lost.__cause__ or ran.lost).partition("\n")[0]
        return _End(
            "lost",
            RunCode.LOST,
            f"{_short(job)} lost its lock while it ran, and was ended; another may have begun ({reason})",
            ran.seconds,
        )
    if ran.failure:
        code = RunCode.NOT_FOUND if ran.failure.errno == errno.ENOENT else RunCode.NOT_EXECUTABLE
        return _End(
            "failure", code, f"{_short(command[0])} cannot be started: {ran.failure.strerror}", ran.seconds
        )
    assert ran.returncode is not None
    signaled = ran.returncode < 0
    status = RunCode.SIGNALED - ran.returncode if signaled else ran.returncode
    message = (
        "" if ran.guarded else f"the process that guards {_short(job)} was killed, and the program with it"
    )
    return _End("failure" if status else "success", status, message, ran.seconds)


def _conninfo(access: Access, settings: Settings) -> str:
    """Return where to connect, for ten seconds at most where nothing else is said."""
    from psycopg.conninfo import make_conninfo  # noqa: PLC0415

    source, *others = sources_of(access, settings)
    if others:
        raise ConfigError("run takes a lock on one server: give one --target")
    try:
        given = parse(source.dsn)
    except BadConnectionString as error:
        raise ConfigError(f"{source.origin}: {error}") from None
    if "connect_timeout" in given or "PGCONNECT_TIMEOUT" in os.environ:
        return source.dsn
    return make_conninfo(source.dsn, connect_timeout=_PATIENCE)


def _key_of(name: str, scheme: str | None, settings: Settings) -> dict[str, Any]:
    """Return the lock's key, or the scheme that makes it of the name, as configured. Raises `ConfigError`."""
    if not name:
        raise ConfigError("a job's name must not be empty: give the name that the lock is made from")
    job = next((job for job in settings.jobs if job.name == name), None)
    if scheme or not job:
        return {"scheme": scheme_named(scheme or settings.scheme).name}
    if job.first is not None or job.match or (job.key and job.key.sql_arguments is None):
        raise ConfigError(f"the job {_short(name)} is configured to be more than one lock: name one of them")
    return {"key": job.key, "scheme": job.scheme}


def _busy_code(on_busy: str, code: int) -> int:
    return code if on_busy == "fail" else 0


def _short(text: str) -> str:
    return printable(text, limit=80)


def _note(file: Path, job: str, end: _End) -> None:
    at_work = end.seconds is not None
    try:
        _textfile().note(
            file,
            printable(job),
            end.outcome,
            at=time.time(),
            seconds=end.seconds,
            code=end.code if at_work else None,
        )
    except (ConfigError, OSError) as error:
        talk(f"{file} was not written: {getattr(error, 'strerror', None) or error}")


def _textfile() -> ModuleType:
    from pglock_inspect.run import textfile  # noqa: PLC0415 - it loads prometheus_client

    return textfile

"""``kill``: ends a holder or cancels a waiter, if it still is what was shown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import click
from typer import Argument, Option

from pglock_inspect.cli.access import settings_of, sources_of, watcher_of
from pglock_inspect.cli.acting import act_on, poll, wait_for_result
from pglock_inspect.cli.commands import DashedArguments, command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.options import Access, configured, connection_options
from pglock_inspect.cli.output import talk, write
from pglock_inspect.errors import ConfigError, Refused
from pglock_inspect.kill import Action, account, order_for_holder, order_for_process
from pglock_inspect.present.meaning import locks_meant, names_job, pid_meant
from pglock_inspect.present.text import printable

if TYPE_CHECKING:
    from pglock_inspect.kill import Order
    from pglock_inspect.model import Report
    from pglock_inspect.watch import Watcher

app = command_app()


@app.command(cls=DashedArguments, short_help="End a holder, or make a waiter give up.")
@connection_options
def kill(
    access: Access,
    *,
    subject: Annotated[
        str, Argument(metavar="JOB|KEY|pid:N", autocompletion=configured("jobs"), show_default=False)
    ],
    terminate: Annotated[bool, Option("--terminate", help="End the session.")] = False,
    cancel: Annotated[bool, Option("--cancel", help="Cancel the statement of a waiter.")] = False,
    yes: Annotated[bool, Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would be done.")] = False,
) -> ExitCode:
    """End the only holder of a job or key, or the process pid:N; a waiter's statement is cancelled.

    A bare number is a pid where that process holds a lock or waits, else a key. It looks once more and
    acts in one statement, and refuses where the process is no longer what was shown.

    Exit code: 0 done, 1 refused or without effect, 3 could not look.
    """
    if terminate and cancel:
        raise ConfigError("--terminate and --cancel exclude each other: give one of them")
    wanted: Action | None = "terminate" if terminate else "cancel" if cancel else None
    settings = settings_of(access)
    source, *others = sources_of(access, settings)
    if others:
        raise ConfigError("kill acts on one server: give one --target")
    jobs = [subject] if names_job(subject) else []
    with watcher_of(source, settings.with_limits(jobs=jobs)) as watcher:
        try:
            order = _order(poll(watcher), subject, wanted)
            return _carry_out(watcher, order, yes=yes, dry_run=dry_run)
        except Refused as refused:
            if refused.instead:
                write(printable(refused.instead))
            talk(str(refused))
            return ExitCode.WARNING


def _order(report: Report, subject: str, wanted: Action | None) -> Order:
    pid = pid_meant(report, subject)
    if pid is not None:
        return order_for_process(report, pid, wanted)
    return order_for_holder(report, locks_meant(report, subject), subject, wanted)


def _carry_out(watcher: Watcher, order: Order, *, yes: bool, dry_run: bool) -> ExitCode:
    for sentence in account(order):
        talk(sentence)
    if not (yes or dry_run):
        _ask(order)
    act_on(watcher, order, persistent=yes or dry_run, dry=dry_run)
    if dry_run:
        write(f"{order.sql};  -- was not run")
        return ExitCode.OK
    outcome = wait_for_result(watcher, order)
    write(printable(outcome.text))
    return ExitCode.OK if outcome.done else ExitCode.WARNING


def _ask(order: Order) -> None:
    if not all(stream and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise Refused(f"nobody is there to be asked: --yes does it, --dry-run tells what ({order.sql})")
    if not click.confirm(f"{order.action.capitalize()} pid {order.pid}?", err=True):
        raise Refused("nothing was done")

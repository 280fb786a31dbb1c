"""``why``: a plain-language account of one job, key or process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from typer import Argument, Option

from pglock_inspect.cli.access import Watchers, settings_of
from pglock_inspect.cli.commands import DashedArguments, command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.options import Access, configured, connection_options
from pglock_inspect.cli.output import stdout_paper, talk, write
from pglock_inspect.cli.replay import AtOption, ReplayOption, replay_of
from pglock_inspect.config import Settings
from pglock_inspect.present import why as present
from pglock_inspect.present.account import account_of_free, accounts
from pglock_inspect.present.meaning import free_places, locks_meant, names_job

if TYPE_CHECKING:
    from pglock_inspect.present.account import Account

app = command_app()


@app.command(cls=DashedArguments, short_help="Tell who holds a lock, how we know, and what to do.")
@connection_options
def why(
    access: Access,
    *,
    what: Annotated[
        str, Argument(metavar="JOB|KEY|pid:N", autocompletion=configured("jobs"), show_default=False)
    ],
    format_name: Annotated[Literal["text", "json"], Option("--format")] = "text",
    replay: ReplayOption = None,
    at: AtOption = None,
) -> ExitCode:
    """Tell who holds a lock, since when and how we know, who waits, and what to do.

    KEY is N, A,B or classid/objid/objsubid; a bare number is a pid where a process of that number holds or
    waits for a lock.
    """
    past = replay_of(access, replay, at)
    settings = Settings() if past else settings_of(access)  # a recording was named and judged in its time
    job = what if names_job(what) else None
    configured = past is not None or any(known.name == job for known in settings.jobs)
    if job:
        settings = settings.with_limits(jobs=(job,))
    told: list[tuple[str, list[Account]]] = []
    code = ExitCode.OK
    with past or Watchers(access, settings) as source:
        reports = source.poll()
    for report in reports:
        if report.error is not None:
            talk(report.error)
            code = ExitCode.UNKNOWN
            continue
        found = accounts(report, [(lock.database, lock.key) for lock in locks_meant(report, what)])
        if not found:
            places = free_places(report, what)
            found = [account_of_free(place, job, configured=configured) for place in places]
        if found:
            told.append((report.target, found))
        elif job:  # one of many keys
            talk(f"nobody holds {job!r} on {report.target} or waits for it")
        else:
            talk(f"{what!r} holds no advisory lock and waits for none on {report.target}")
            code = ExitCode.UNKNOWN
    if told:
        write(present.as_json(told) if format_name == "json" else present.as_text(told, stdout_paper()))
    return code

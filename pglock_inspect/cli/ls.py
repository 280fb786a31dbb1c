"""``ls``: the advisory locks of one poll, or of one poll after another."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, cast, get_args

from typer import Option

from pglock_inspect.cli.access import Watchers, settings_of, telling
from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.garbage import loaded
from pglock_inspect.cli.options import (
    LEAST_INTERVAL,
    LONGEST_INTERVAL,
    Access,
    Duration,
    connection_options,
    several,
    several_jobs,
)
from pglock_inspect.cli.output import stdout_paper, talk, write
from pglock_inspect.cli.replay import AtOption, ReplayOption, replay_of
from pglock_inspect.config import Settings
from pglock_inspect.present.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.model import Report
    from pglock_inspect.present.paper import Paper

# Each is a module of `present`.
FormatName = Literal["table", "json", "jsonl", "csv"]
FORMATS: tuple[str, ...] = get_args(FormatName)

app = command_app()


class Format(Protocol):
    """Shows the reports of one poll (one per target), or of poll after poll."""

    def once(self, reports: Sequence[Report], paper: Paper) -> str:
        """Return what one poll shows."""
        ...

    def stream(self, polls: Iterable[Sequence[Report]], paper: Paper) -> Iterator[str]:
        """Yield what each poll shows."""
        ...


@app.command(short_help="Show the locks of one poll.")
@connection_options
def ls(
    access: Access,
    *,
    databases: Annotated[list[str], several("--database", metavar="NAME", help="Only in this database.")],
    jobs: Annotated[list[str], several_jobs("--job", help="Only of this job.")],
    stale: Annotated[bool, Option("--stale", help="Only locks held for too long.")] = False,
    waiting: Annotated[
        bool, Option("--waiting", help="Only locks that are waited for, and who waits.")
    ] = False,
    format_name: Annotated[FormatName, Option("--format")] = "table",
    watch: Annotated[bool, Option("--watch", help="Poll again and again.")] = False,
    every: Annotated[
        float | None,
        Option(
            click_type=Duration(LEAST_INTERVAL, LONGEST_INTERVAL),
            help="With this pause [2s, or as configured]; implies --watch.",
        ),
    ] = None,
    replay: ReplayOption = None,
    at: AtOption = None,
) -> ExitCode:
    """Show which job holds which advisory lock, since when, and who waits.

    --format jsonl writes one lock per line, with --watch one report per line. --watch --replay shows all that
    was recorded from --at on, with no pause unless --every tells one.
    """
    past = replay_of(access, replay, at)
    found = Settings() if past else settings_of(access)  # a recording was named and judged in its time
    settings = found.with_limits(jobs=jobs)
    selection = Selection(frozenset(databases), frozenset(jobs), stale=stale, waiting=waiting)
    shown = cast("Format", import_module(f"pglock_inspect.present.{format_name}"))
    with past or Watchers(access, settings) as source:
        if watch or every is not None:
            polls = source.polls(every or (0.0 if past else settings.interval))
            _watch(polls if format_name == "table" else telling(polls), selection, shown)
            return ExitCode.OK
        reports = source.poll()
    write(shown.once([selection.of(report) for report in reports], stdout_paper()))
    configured = {job.name for job in found.jobs}
    if past:
        configured |= {state.job.name for report in reports for state in report.jobs}
    return _conclude(reports, jobs, configured)


def _watch(polls: Iterable[Sequence[Report]], selection: Selection, shown: Format) -> None:
    loaded()
    selected = ([selection.of(report) for report in reports] for reports in polls)
    for text in shown.stream(selected, stdout_paper()):
        write(text)


def _conclude(reports: Sequence[Report], jobs: Sequence[str], configured: set[str]) -> ExitCode:
    """Say on stderr what could not be seen."""
    code = ExitCode.OK
    for report in reports:
        if report.error is not None:
            talk(report.error)
            code = ExitCode.UNKNOWN
    if code is ExitCode.OK:
        known = configured | {lock.name.text for report in reports for lock in report.locks if lock.name}
        for job in jobs:
            if job not in known:
                talk(_unknown_job(job, known))
                code = ExitCode.UNKNOWN
    return code


def _unknown_job(job: str, known: set[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(job, known)
    hint = f"did you mean {' or '.join(near)}?" if near else "check its name, or configure it under [[jobs]]"
    return f"no job {job!r} is configured or holds a lock: {hint}"

"""``check``: one poll, one verdict, for a monitor, a CI job or a script."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, cast, get_args

import click
from msgspec.structs import replace
from typer import Option

from pglock_inspect.cli.access import Watchers, settings_of
from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.options import Access, Duration, connection_options, several, several_jobs
from pglock_inspect.cli.output import talk, write
from pglock_inspect.cli.overrides import Override, override, parse_override
from pglock_inspect.cli.replay import AtOption, ReplayOption, check_names, replay_of
from pglock_inspect.config import Settings
from pglock_inspect.errors import BadStateFile
from pglock_inspect.model import RuleSettings
from pglock_inspect.present.expectations import Expectations
from pglock_inspect.present.meaning import not_configured
from pglock_inspect.present.selection import Selection
from pglock_inspect.present.verdict import doubt, judge, worst

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pglock_inspect.cli.replay import Replay
    from pglock_inspect.model import Finding, Report
    from pglock_inspect.present.verdict import Verdict
    from pglock_inspect.state_file import StateFile

# Each is a module of `present`.
FormatName = Literal["text", "json", "junit", "github", "prometheus"]
FORMATS: tuple[str, ...] = get_args(FormatName)
_MODULES = {"text": "nagios"}

_PAUSE = 0.2  # seconds, until what is expected is looked for again

app = command_app()


class Format(Protocol):
    """Shows verdicts, one per target."""

    def judged(self, verdicts: Sequence[Verdict]) -> str | bytes:
        """Return what to print."""
        ...


@app.command(short_help="Judge the locks of one poll: exit code and text.")
@connection_options
def check(
    access: Access,
    *,
    jobs: Annotated[list[str], several_jobs("--job", help="Judge this job alone. Repeatable.")],
    max_held: Annotated[
        float | None,
        Option(click_type=Duration(), help="Stale when held this long [1h, or as configured]."),
    ] = None,
    max_wait: Annotated[
        float | None, Option(click_type=Duration(), help="Too long a wait [1m, or as configured].")
    ] = None,
    overrides: Annotated[
        list[Override],
        several(
            "--severity",
            parser=parse_override,
            metavar="RULE=LEVEL",
            help="Count a rule as info, warning, critical or off. Repeatable.",
        ),
    ],
    held: Annotated[
        list[str], several_jobs("--must-be-held", help="Critical unless it is held. Repeatable.")
    ],
    free: Annotated[list[str], several_jobs("--must-be-free", help="Critical while it is held. Repeatable.")],
    no_locks: Annotated[
        bool, Option("--no-locks", help="Critical while this database has any lock, or who waits for one.")
    ] = False,
    within: Annotated[
        float | None,
        Option(click_type=Duration(), help="Look again and again, for so long, until that is so."),
    ] = None,
    state_file: Annotated[
        Path | None, Option(metavar="FILE", help="Carry what was observed from one run to the next.")
    ] = None,
    format_name: Annotated[FormatName, Option("--format")] = "text",
    replay: ReplayOption = None,
    at: AtOption = None,
) -> ExitCode:
    """Judge the locks of one poll.

    Exit code: 0 OK, 1 warning, 2 critical (also when nobody gets a lock or a connection any more),
    3 unknown. The text is a Nagios plug-in's line with performance data.
    """
    expected = Expectations(tuple(held), tuple(free), no_locks)
    if within is not None and expected == Expectations():
        raise click.UsageError("--within is for --must-be-held, --must-be-free and --no-locks: give one")
    if replay and (overrides or any(given is not None for given in (max_held, max_wait, within, state_file))):
        raise click.UsageError(
            "what was recorded was judged in its time: --max-held, --max-wait, --severity, --within and "
            "--state-file are not for --replay"
        )
    past = replay_of(access, replay, at)
    configured = Settings() if past else settings_of(access)
    settings = configured.with_limits(jobs=[*held, *free])
    settings = settings.with_limits(jobs=jobs, max_held=max_held, max_wait=max_wait)
    made_up = [] if past else [job.name for job in settings.jobs[len(configured.jobs) :]]  # by its name alone
    settings = replace(settings, rules=override(settings.rules, overrides))
    file = _open(state_file) if state_file else None
    observed = file.load() if file else {}
    with past or Watchers(access, settings, observed) as source:
        reports = _look(source, expected, within or 0.0)
    if past:
        check_names(reports, [*jobs, *held, *free])
    selection = Selection(jobs=frozenset(jobs))
    verdicts = [
        judge(selection.of(report), jobs, [*_unmet(expected, report, settings.rules)]) for report in reports
    ]
    unsaved = _save(file, source) if file and isinstance(source, Watchers) else None
    if unsaved is not None:
        verdicts = [doubt(verdict, unsaved) for verdict in verdicts]
    shown = cast("Format", import_module(f"pglock_inspect.present.{_MODULES.get(format_name, format_name)}"))
    write(shown.judged(verdicts))
    for report in reports:
        for sentence in [report.error] if report.error is not None else not_configured(report, made_up):
            talk(sentence)
    return ExitCode(worst(verdict.status for verdict in verdicts))


def _open(path: Path) -> StateFile:
    from pglock_inspect.state_file import StateFile  # noqa: PLC0415  (most checks keep no state)

    return StateFile(path)


def _look(source: Watchers | Replay, expected: Expectations, within: float) -> list[Report]:
    """Return the first poll that is as expected, or the one ``within`` seconds from now."""
    end = time.monotonic() + within
    while True:
        reports = source.poll()
        left = end - time.monotonic()
        if left <= 0 or all(map(expected.met, reports)):
            return reports
        time.sleep(min(_PAUSE, left))


def _unmet(expected: Expectations, report: Report, rules: Mapping[str, RuleSettings]) -> Iterator[Finding]:
    for finding in expected.unmet(report):
        severity = rules.get(finding.rule, RuleSettings()).severity
        if severity != "off":
            yield replace(finding, severity=severity) if severity else finding


def _save(file: StateFile, watchers: Watchers) -> str | None:
    """Leave what was observed for the next run; say what is wrong, and return why it could not be left."""
    if file.problem:
        talk(file.problem)
    try:
        file.save(watchers.states)
    except BadStateFile as error:
        talk(str(error))
        return str(error)
    return None

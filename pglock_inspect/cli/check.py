"""``check``: one poll, one verdict, for a monitor, a CI job or a script."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Literal, Protocol, cast, get_args

from typer import Option

from pglock_inspect.cli.access import Watchers, settings_of
from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.options import Access, Duration, configured, connection_options, several
from pglock_inspect.cli.output import talk, write
from pglock_inspect.present.selection import Selection
from pglock_inspect.present.verdict import judge, worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.present.verdict import Verdict

# Each is a module of `present`.
FormatName = Literal["text", "json", "junit", "github", "prometheus"]
FORMATS: tuple[str, ...] = get_args(FormatName)
_MODULES = {"text": "nagios"}

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
    jobs: Annotated[
        list[str],
        several(
            "--job",
            metavar="NAME",
            autocompletion=configured("jobs"),
            help="Judge this job alone. Repeatable.",
        ),
    ],
    max_held: Annotated[
        float | None,
        Option(click_type=Duration(), help="Stale when held this long [1h, or as configured]."),
    ] = None,
    max_wait: Annotated[
        float | None, Option(click_type=Duration(), help="Too long a wait [1m, or as configured].")
    ] = None,
    format_name: Annotated[FormatName, Option("--format")] = "text",
) -> ExitCode:
    """Judge the locks of one poll.

    Exit code: 0 OK, 1 warning, 2 critical (also when nobody gets a lock or a connection any more),
    3 unknown. The text is a Nagios plug-in's line with performance data.
    """
    settings = settings_of(access).with_limits(jobs=jobs, max_held=max_held, max_wait=max_wait)
    selection = Selection(jobs=frozenset(jobs))
    with Watchers(access, settings) as watchers:
        reports = watchers.poll()
    verdicts = [judge(selection.of(report), jobs) for report in reports]
    shown = cast(
        "Format",
        import_module(f"pglock_inspect.present.{_MODULES.get(format_name, format_name)}"),
    )
    write(shown.judged(verdicts))
    for report in reports:
        if report.error is not None:
            talk(report.error)
    return ExitCode(worst(verdict.status for verdict in verdicts))

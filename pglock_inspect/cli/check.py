"""``check``: one poll, one verdict, for a monitor, a CI job or a script."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import click

from pglock_inspect.cli.access import Watchers, settings_of
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.options import Duration, configured, connection_options
from pglock_inspect.cli.output import talk, write
from pglock_inspect.present.selection import Selection
from pglock_inspect.present.verdict import judge, worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.cli.options import Access
    from pglock_inspect.present.verdict import Verdict

# Each has a module of `present`.
FORMATS = {
    "text": "nagios",
    "json": "json",
    "junit": "junit",
    "github": "github",
    "prometheus": "prometheus",
}


class Format(Protocol):
    """Shows verdicts, one per target."""

    def judged(self, verdicts: Sequence[Verdict]) -> str | bytes:
        """Return what to print."""
        ...


@click.command("check", short_help="Judge the locks of one poll: exit code and text.")
@click.option(
    "--job",
    "jobs",
    multiple=True,
    metavar="NAME",
    shell_complete=configured("jobs"),
    help="Judge this job alone. Repeatable.",
)
@click.option("--max-held", type=Duration(), help="Stale when held this long [1h, or as configured].")
@click.option("--max-wait", type=Duration(), help="Too long a wait [1m, or as configured].")
@click.option("--format", "format_name", type=click.Choice(list(FORMATS)), default="text", show_default=True)
@connection_options
def command(
    access: Access,
    *,
    jobs: tuple[str, ...],
    max_held: float | None,
    max_wait: float | None,
    format_name: str,
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
    shown = cast("Format", import_module(f"pglock_inspect.present.{FORMATS[format_name]}"))
    write(shown.judged(verdicts))
    for report in reports:
        if report.error is not None:
            talk(report.error)
    return ExitCode(worst(verdict.status for verdict in verdicts))

"""``record``: poll after poll into a file, to look at later."""

from __future__ import annotations

import math
import signal
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from pglock_inspect.cli.access import Watchers, settings_of, telling
from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.garbage import loaded
from pglock_inspect.cli.options import LEAST_INTERVAL, LONGEST_INTERVAL, Access, Duration, connection_options
from pglock_inspect.cli.output import talk
from pglock_inspect.recording import Recorder

app = command_app()


@app.command(short_help="Record what polls show, to look at later.")
@connection_options
def record(
    access: Access,
    *,
    file: Annotated[Path, Argument(metavar="FILE", show_default=False)],
    every: Annotated[
        float | None,
        Option(
            click_type=Duration(LEAST_INTERVAL, LONGEST_INTERVAL),
            help="Poll with this pause [2s, or as configured].",
        ),
    ] = None,
    lasting: Annotated[
        float | None,
        Option("--for", click_type=Duration(), help="End after so long; else by Ctrl-C or SIGTERM."),
    ] = None,
    expose_queries: Annotated[
        bool, Option("--expose-queries", help="Record the text of queries too.")
    ] = False,
) -> ExitCode:
    """Record what polls show: behind what FILE has, if it is a recording already.

    top, ls, why and check look at it with --replay FILE.
    """
    settings = settings_of(access)
    recorded = seen = 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Watchers(access, settings) as watchers, Recorder(file, queries=expose_queries) as recorder:
        try:
            loaded()
            talk(f"recording to {file}")
            polls = watchers.polls(every or settings.interval, math.inf if lasting is None else lasting)
            for reports in telling(polls):
                recorder.write(reports)
                recorded += 1
                seen += any(report.server for report in reports)
        except KeyboardInterrupt:
            pass  # the way to end it
    talk(f"recorded {recorded:,} poll{'' if recorded == 1 else 's'} to {file}")
    return ExitCode.OK if seen else ExitCode.UNKNOWN

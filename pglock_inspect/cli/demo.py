"""``demo``: a PostgreSQL of one's own, with every kind of trouble to look at."""

from __future__ import annotations

from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.output import stdout_paper, talk, write

app = command_app()


@app.command(short_help="Watch a PostgreSQL of its own that has every kind of trouble.")
def demo() -> int:
    """Start a PostgreSQL with jobs that hold and want locks, and watch it with top.

    Without a terminal, print what ls and check say of it. Nothing of it is left afterwards.
    """
    from pglock_inspect.cli.top import show  # noqa: PLC0415
    from pglock_inspect.config import load_settings  # noqa: PLC0415
    from pglock_inspect.demo.server import TemporaryServer  # noqa: PLC0415
    from pglock_inspect.demo.workload import CONFIGURATION, SERVER_SETTINGS, Workload  # noqa: PLC0415
    from pglock_inspect.top.terminal import is_usable  # noqa: PLC0415
    from pglock_inspect.watch import Watcher  # noqa: PLC0415

    settings = load_settings(config=CONFIGURATION, environ={}, cwd=CONFIGURATION.parent)
    server = TemporaryServer(settings=SERVER_SETTINGS)
    talk("starting a PostgreSQL and the sessions that work on it ...")
    with server, Workload(server) as workload, Watcher(workload.dsn(), settings) as watcher:
        report = workload.wait(watcher)
        if is_usable():
            return show([watcher], settings.interval)
        from pglock_inspect.present import nagios, table  # noqa: PLC0415
        from pglock_inspect.present.verdict import judge  # noqa: PLC0415

        verdict = judge(report)
        write(f"$ pglock-inspect ls\n\n{table.once([report], stdout_paper())}\n")
        write(f"$ pglock-inspect check\n\n{nagios.judged([verdict])}\n")
        write(f"check exits with {verdict.status.value} ({verdict.status.name}).")
    return ExitCode.OK

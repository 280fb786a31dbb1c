"""``serve``: the exporter."""

from __future__ import annotations

import gc
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from typer import Option

from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.options import LEAST_INTERVAL, Access, Duration, connection_options
from pglock_inspect.cli.output import talk
from pglock_inspect.config.address import Address, parse_address

if TYPE_CHECKING:
    from pglock_inspect.config import Settings
    from pglock_inspect.state_file import StateFile
    from pglock_inspect.watch import Watcher

app = command_app()


class Listen(click.ParamType[Address]):
    """An address to listen on."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:  # noqa: ANN401
        """Return host and port."""
        if isinstance(value, Address):
            return value
        try:
            return parse_address(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@app.command(short_help="Serve metrics for Prometheus, and the report as JSON and as a page.")
@connection_options
def serve(
    access: Access,
    *,
    listen: Annotated[
        Address | None,
        Option(click_type=Listen(), metavar="ADDRESS:PORT", help="Listen there [127.0.0.1:10187]."),
    ] = None,
    interval: Annotated[
        float | None,
        Option(click_type=Duration(LEAST_INTERVAL), help="Poll with this pause [2s, or as configured]."),
    ] = None,
    state_file: Annotated[
        Path | None, Option(metavar="FILE", help="Carry what was observed over a restart.")
    ] = None,
    expose_queries: Annotated[
        bool, Option("--expose-queries", help="Show the text of queries to whoever asks.")
    ] = False,
) -> ExitCode:
    """Poll servers, and serve metrics for Prometheus, the report as JSON, and a page.

    It polls all configured targets, unless --target or --dsn chooses others.
    """
    from pglock_inspect.cli.access import settings_of  # noqa: PLC0415
    from pglock_inspect.serve.fleet import Fleet  # noqa: PLC0415
    from pglock_inspect.serve.server import listen_on, run  # noqa: PLC0415
    from pglock_inspect.serve.web import Site  # noqa: PLC0415
    from pglock_inspect.state_file import StateFile  # noqa: PLC0415

    settings = settings_of(access)
    address = listen or Address("127.0.0.1", 10187)
    file = StateFile(state_file) if state_file else None
    watchers = _watchers(access, settings, file)
    with ExitStack() as sockets:
        listening = [sockets.enter_context(one) for one in listen_on(address)]
        gc.freeze()  # what is loaded stays
        with Fleet(watchers, interval or settings.interval, talk, file) as fleet:
            for one in listening:
                host, port, *_ = one.getsockname()
                talk(f"listening on http://{Address(host, port)}")
            run(Site(fleet, talk, queries=expose_queries).app(), listening, talk)
    return ExitCode.OK


def _watchers(access: Access, settings: Settings, file: StateFile | None) -> list[Watcher]:
    from pglock_inspect.cli.access import sources_of, watcher_of  # noqa: PLC0415
    from pglock_inspect.postgres import where  # noqa: PLC0415

    states = file.load() if file else {}
    if file and file.problem:
        talk(file.problem)
    if access.dsn is None and not access.targets and settings.targets:
        access = access._replace(targets=("all",))
    sources = [
        source._replace(target=source.target or where(source.dsn)) for source in sources_of(access, settings)
    ]
    return [watcher_of(source, settings, states) for source in sources]

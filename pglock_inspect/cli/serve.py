"""``serve``: the exporter."""

from __future__ import annotations

from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
from msgspec.structs import replace
from typer import Option

from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.garbage import loaded
from pglock_inspect.cli.options import LEAST_INTERVAL, LONGEST_INTERVAL, Access, Duration, connection_options
from pglock_inspect.cli.output import talk
from pglock_inspect.config.address import Address, parse_address

if TYPE_CHECKING:
    from collections.abc import Sequence
    from socket import socket

    from starlette.middleware import Middleware

    from pglock_inspect.config import Serving, Settings
    from pglock_inspect.serve.tls import Certificate
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


@app.command(short_help="Serve metrics for Prometheus, JSON, and a page.")
@connection_options
def serve(
    access: Access,
    *,
    listen: Annotated[
        Address | None,
        Option(
            click_type=Listen(),
            metavar="ADDRESS:PORT",
            envvar="PGLOCK_LISTEN",
            show_envvar=False,
            help="Listen there [$PGLOCK_LISTEN, 127.0.0.1:10187].",
        ),
    ] = None,
    interval: Annotated[
        float | None,
        Option(
            click_type=Duration(LEAST_INTERVAL, LONGEST_INTERVAL),
            help="Poll with this pause [2s, or as configured].",
        ),
    ] = None,
    state_file: Annotated[
        Path | None, Option(metavar="FILE", help="Carry what was observed over a restart.")
    ] = None,
    tls_cert: Annotated[
        Path | None, Option(metavar="FILE", help="Speak TLS, with this certificate (PEM).")
    ] = None,
    tls_key: Annotated[Path | None, Option(metavar="FILE", help="Its key, if in another file.")] = None,
    expose_queries: Annotated[
        bool, Option("--expose-queries", help="Show the text of queries to whoever asks.")
    ] = False,
) -> ExitCode:
    """Poll servers, and serve metrics for Prometheus, the report as JSON, and a page.

    It polls all configured targets, unless --target or --dsn chooses others.
    """
    if tls_key and not tls_cert:
        raise click.UsageError("--tls-key is the key of a certificate: give --tls-cert too")

    from pglock_inspect.cli.access import settings_of  # noqa: PLC0415
    from pglock_inspect.serve.fleet import Fleet  # noqa: PLC0415
    from pglock_inspect.serve.server import listen_on, run  # noqa: PLC0415
    from pglock_inspect.serve.web import Site  # noqa: PLC0415
    from pglock_inspect.state_file import StateFile  # noqa: PLC0415

    settings = settings_of(access)
    given = {"listen": listen, "tls_cert": tls_cert, "expose_queries": expose_queries or None}
    serving = replace(settings.serve, **{name: value for name, value in given.items() if value is not None})
    if tls_cert:
        serving = replace(serving, tls_key=tls_key)
    file = StateFile(state_file) if state_file else None
    watchers = _watchers(access, settings, file)
    certificate = _certificate(serving)
    with ExitStack() as sockets:
        listening = [sockets.enter_context(one) for one in listen_on(serving.listen)]
        guard = _guard(serving, listening)
        loaded()
        with Fleet(watchers, interval or settings.interval, talk, file) as fleet:
            site = Site(fleet, talk, queries=serving.expose_queries)
            for one in listening:
                talk(f"listening on {'https' if certificate else 'http'}://{_address(one)}")
            run(site.app([guard]), listening, talk, certificate)
    return ExitCode.OK


def _watchers(access: Access, settings: Settings, file: StateFile | None) -> list[Watcher]:
    from pglock_inspect.cli.access import watched_sources_of, watcher_of  # noqa: PLC0415

    states = file.load() if file else {}
    if file and file.problem:
        talk(file.problem)
    sources = watched_sources_of(access, settings)
    # What a series is called must not change with the server that happens to answer.
    return [watcher_of(source, settings, states, renamed=False) for source in sources]


def _certificate(serving: Serving) -> Certificate | None:
    from pglock_inspect.serve.tls import Certificate  # noqa: PLC0415

    return Certificate(serving.tls_cert, serving.tls_key) if serving.tls_cert else None


def _guard(serving: Serving, listening: Sequence[socket]) -> Middleware:
    """Return what refuses requests; say where it refuses too few."""
    from starlette.middleware import Middleware  # noqa: PLC0415

    from pglock_inspect.serve.guard import LOOPBACK_HOSTS, Guard  # noqa: PLC0415
    from pglock_inspect.serve.passwords import Passwords  # noqa: PLC0415

    private = all(ip_address(one.getsockname()[0]).is_loopback for one in listening)
    if not private and not serving.users:
        talk(f"whoever reaches {serving.listen} may ask: set a password under [serve.users]")
    elif not private and not serving.tls_cert:
        talk(f"passwords go to {serving.listen} in the clear: give --tls-cert")
    return Middleware(
        Guard,
        hosts={*LOOPBACK_HOSTS, serving.listen.host.lower()} if private else None,
        passwords=Passwords(serving.users) if serving.users else None,
    )


def _address(listening: socket) -> Address:
    host, port, *_ = listening.getsockname()
    return Address(host, port)

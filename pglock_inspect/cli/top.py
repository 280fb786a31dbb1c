"""``top``: the live table."""

from __future__ import annotations

import sys
from random import random
from typing import TYPE_CHECKING, Annotated

import click
from typer import Option

from pglock_inspect.cli.commands import command_app
from pglock_inspect.cli.exit_codes import ExitCode
from pglock_inspect.cli.garbage import loaded
from pglock_inspect.cli.options import LEAST_INTERVAL, LONGEST_INTERVAL, Access, Duration, connection_options
from pglock_inspect.cli.output import talk
from pglock_inspect.cli.replay import FromOption, ReplayOption, chosen_targets, open_recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.model import Lock, Report
    from pglock_inspect.recording import Recording
    from pglock_inspect.top.acting import Action, Proposal, Propose
    from pglock_inspect.watch import Watcher

app = command_app()


@app.command(short_help="Watch the locks on a screen that keeps itself up to date.")
@connection_options
def top(
    access: Access,
    *,
    every: Annotated[
        float | None,
        Option(click_type=Duration(most=LONGEST_INTERVAL), help="Poll with this pause; + and - change it."),
    ] = None,
    read_only: Annotated[
        bool, Option("--read-only", help="Nothing can be cancelled or terminated from here.")
    ] = False,
    replay: ReplayOption = None,
    at: FromOption = None,
) -> int:
    """Watch which job holds which advisory lock, since when, and who waits.

    It shows all configured targets, unless --target or --dsn chooses others.
    Keys: arrows move, Enter shows all about a row, 1 to 5 are views, / filters, ? tells the others, q quits.
    --replay plays a recording.
    """
    from pglock_inspect.top.terminal import is_usable  # noqa: PLC0415

    if not is_usable():
        talk("top needs stdin, stdout and stderr on a terminal that can draw: elsewhere use ls or ls --watch")
        return ExitCode.UNKNOWN
    if replay and every is not None:
        raise click.UsageError(
            "--every is a pause between polls: a recording has its own, and + plays it faster"
        )
    found = open_recording(access, replay, at)
    if found:
        recording, index = found
        with recording:
            return play(recording, index or 0, access.targets)

    from pglock_inspect.cli.access import settings_of, watched_sources_of, watcher_of  # noqa: PLC0415

    settings = settings_of(access)
    watchers = [watcher_of(source, settings) for source in watched_sources_of(access, settings)]
    return show(watchers, every or settings.interval, read_only=read_only)


def show(watchers: Sequence[Watcher], interval: float, *, read_only: bool = False) -> int:
    """Show what watchers see until the person quits; return the exit code.

    Raises `ServerFailure` where the first poll of an only one does not reach the server.
    """
    from pglock_inspect.present.look import look_of  # noqa: PLC0415
    from pglock_inspect.top.polling import Poller  # noqa: PLC0415
    from pglock_inspect.top.terminal import ask_background  # noqa: PLC0415
    from pglock_inspect.watch import pause  # noqa: PLC0415

    pollers = [
        Poller(
            watcher.poll,
            max(interval, LEAST_INTERVAL),
            lambda interval, failures: pause(interval, failures, random()),  # noqa: S311 - a jitter
        )
        for watcher in watchers
    ]
    for poller in pollers:
        poller.start()
    is_light = ask_background()
    try:
        # While server and terminal answer.
        from pglock_inspect.top.servers import Source  # noqa: PLC0415
        from pglock_inspect.top.ui.app import TopApp  # noqa: PLC0415
    finally:
        light = is_light()
    loaded()
    assert sys.__stderr__
    sources = [
        Source(watcher.target, poller, None if read_only else _propose_on(watcher))
        for watcher, poller in zip(watchers, pollers, strict=True)
    ]
    app = TopApp(sources, look_of(sys.__stderr__.encoding), light=light)
    try:
        error = app.run()
    finally:
        for watcher, poller in zip(watchers, pollers, strict=True):
            if poller.stop():
                watcher.close()
    if error:
        raise error
    return app.return_code or ExitCode.OK


def play(recording: Recording, index: int, names: Sequence[str]) -> int:
    """Play a recording of targets from a poll on, until the person quits; return the exit code.

    Raises `BadRecording` for a target that it has not.
    """
    from pglock_inspect.present.look import look_of  # noqa: PLC0415
    from pglock_inspect.top.terminal import ask_background  # noqa: PLC0415

    targets = chosen_targets(recording, recording.targets(), names)
    is_light = ask_background()
    try:
        from pglock_inspect.top.ui.replay import ReplayApp  # noqa: PLC0415
    finally:
        light = is_light()
    assert sys.__stderr__
    app = ReplayApp(recording, targets, look_of(sys.__stderr__.encoding), index=index, light=light)
    error = app.run()
    if error:
        raise error
    return app.return_code or ExitCode.OK


def _propose_on(watcher: Watcher) -> Propose:
    def propose(report: Report, lock: Lock, action: Action) -> Proposal:
        from pglock_inspect.cli.acting import proposer  # noqa: PLC0415 - most people only look

        return proposer(watcher)(report, lock, action)

    return propose

"""Polls from a recording, where commands else take them from servers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import click
from typer import Option

from pglock_inspect.cli.output import talk
from pglock_inspect.errors import BadRecording
from pglock_inspect.model import to_datetime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.cli.options import Access
    from pglock_inspect.model import Report
    from pglock_inspect.recording import Recording

ReplayOption = Annotated[
    Path | None,
    Option("--replay", metavar="FILE", help="Read what was recorded, and no server."),
]


def _at(meaning: str, default: str) -> Any:  # noqa: ANN401 - as typer has it
    forms = "14:03, 2026-11-30T14:03, +5m from its start, -1m from its end"
    return Option("--at", metavar="TIME", show_default=False, help=f"{meaning}: {forms} [{default}].")


AtOption = Annotated[str | None, _at("What it showed then", "the last")]
FromOption = Annotated[str | None, _at("Play it from then on", "its start")]


class Replay:
    """The polls of a recording from one of them on, each with the reports of the chosen targets alone."""

    def __init__(self, recording: Recording, start: int, targets: tuple[str, ...]) -> None:
        self._recording = recording
        self._start = start
        self._targets = targets

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._recording.close()

    def poll(self) -> list[Report]:
        """Return the poll; say on stderr when it was taken."""
        moment = to_datetime(self._recording.taken_at(self._start))
        talk(f"{self._recording.path} at {moment:%Y-%m-%d %H:%M:%S} UTC")
        return self._reports(self._start)

    def polls(self, interval: float) -> Iterator[list[Report]]:
        """Yield this poll and those after it, up to the end, ``interval`` seconds apart."""
        for number in range(self._start, len(self._recording)):
            if number > self._start:
                time.sleep(interval)
            yield self._reports(number)

    def _reports(self, number: int) -> list[Report]:
        poll = self._recording.poll(number)
        names = chosen_targets(self._recording, [report.target for report in poll], self._targets)
        return [report for name in names for report in poll if report.target == name]


def chosen_targets(recording: Recording, there: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the targets that ``--target`` means, of those that are there. Raises `BadRecording`."""
    if not names or "all" in names:
        return [*there]
    for name in names:
        if name not in there:
            raise BadRecording(f"there is no target {name!r} in {recording.path}: it has {', '.join(there)}")
    return [*dict.fromkeys(names)]


def replay_of(access: Access, file: Path | None, at: str | None) -> Replay | None:
    """Return what to read instead of servers; None where no recording is given. Raises `BadRecording`."""
    found = open_recording(access, file, at)
    if found is None:
        return None
    recording, index = found
    if recording.problem:
        talk(recording.problem)
    return Replay(recording, len(recording) - 1 if index is None else index, access.targets)


def open_recording(access: Access, file: Path | None, at: str | None) -> tuple[Recording, int | None] | None:
    """Return the recording that is given, and the poll that is asked for. Raises `BadRecording`."""
    if file is None:
        if at is not None:
            raise click.UsageError("--at is a time of a recording: give --replay FILE too")
        return None
    if access.dsn is not None:
        raise click.UsageError("--dsn and --replay exclude each other: give one of them")
    from pglock_inspect.recording import Recording  # noqa: PLC0415
    from pglock_inspect.recording.moment import parse_moment  # noqa: PLC0415

    recording = Recording.open(file)
    try:
        return recording, None if at is None else recording.index_at(parse_moment(at, recording))
    except BaseException:
        recording.close()
        raise


def check_names(reports: Iterable[Report], names: Iterable[str]) -> None:
    """Raise `BadRecording` for a name that was neither configured then nor that of a lock."""
    read = [report for report in reports if report.server]
    known = {state.job.name for report in read for state in report.jobs}
    known |= {lock.name.text for report in read for lock in report.locks if lock.name}
    for name in names:
        if read and name not in known:
            raise BadRecording(
                f"no job {name!r} was configured or held a lock when this was recorded: choose another name"
            )

"""From flags, environment and configuration to watchers of servers."""

from __future__ import annotations

import math
import os
import threading
import time
from pathlib import Path
from random import random
from typing import TYPE_CHECKING, NamedTuple, Self

from pglock_inspect.cli.output import talk
from pglock_inspect.config import load_settings, resolve_dsn
from pglock_inspect.errors import BadConnectionString, ConfigError
from pglock_inspect.postgres import where
from pglock_inspect.watch import Watcher, pause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pglock_inspect.cli.options import Access
    from pglock_inspect.config import Settings, Target
    from pglock_inspect.model import Report
    from pglock_inspect.state import State

_EVERY_TARGET = "all"
_DSN_VARIABLES = ("PGLOCK_DSN", "DATABASE_URL")


class Source(NamedTuple):
    """A connection string and where it was found; ``target`` is its configured name."""

    dsn: str
    origin: str
    target: str | None = None


def settings_of(access: Access) -> Settings:
    """Return what is configured. Raises `ConfigError`."""
    try:
        here = Path.cwd()
    except OSError:  # it was removed, or may not be known
        here = Path()
    return load_settings(config=access.config, environ=os.environ, cwd=here)


def sources_of(access: Access, settings: Settings, environ: Mapping[str, str] = os.environ) -> list[Source]:
    """Return the servers to look at: configured targets, else ``--dsn``, a variable, or libpq's defaults.

    Raises `ConfigError`.
    """
    if access.targets:
        if access.dsn is not None:
            raise ConfigError("--dsn and --target exclude each other: give one of them")
        return [
            Source(resolve_dsn(target, environ), f"target {target.name}", target.name)
            for target in _targets(access.targets, settings)
        ]
    if access.dsn is not None:
        return [Source(access.dsn, "--dsn")]
    for variable in _DSN_VARIABLES:
        if environ.get(variable):
            return [Source(environ[variable], variable)]
    return [Source("", "the PG* variables")]


def watched_sources_of(access: Access, settings: Settings) -> list[Source]:
    """Return the servers to keep watching: all configured targets, unless a flag chooses others.

    Raises `ConfigError`.
    """
    if access.dsn is None and not access.targets and settings.targets:
        access = access._replace(targets=(_EVERY_TARGET,))
    return sources_of(access, settings)


def _targets(names: Sequence[str], settings: Settings) -> list[Target]:
    by_name = {target.name: target for target in settings.targets}
    if not by_name:
        raise ConfigError("no targets are configured: add [[targets]] with name and dsn, or give --dsn")
    if _EVERY_TARGET in names:
        return list(settings.targets)
    for name in names:
        if name not in by_name:
            raise ConfigError(f"there is no target {name!r}: configured are {', '.join(by_name)}")
    return [by_name[name] for name in dict.fromkeys(names)]


class Watchers:
    """Watchers of several servers, polled at the same time: one that is away holds nobody up.

    ``states`` are what was observed before, by target.
    """

    def __init__(self, access: Access, settings: Settings, states: Mapping[str, State] = {}) -> None:
        self._watchers = [watcher_of(source, settings, states) for source in sources_of(access, settings)]
        self._told: set[str] = set()
        # A target that has no name is called anew by where it was reached.
        self._targets = [watcher.target for watcher in self._watchers]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for watcher in self._watchers:
            watcher.close()

    @property
    def states(self) -> Mapping[str, State]:
        """What was observed so far, by target."""
        return {target: watcher.state for target, watcher in zip(self._targets, self._watchers, strict=True)}

    def poll(self) -> list[Report]:
        """Return one report per server; say on stderr what they lack, once."""
        reports = self._poll()
        for problem in [watcher.problem for watcher in self._watchers]:
            if problem and problem not in self._told:
                self._told.add(problem)
                talk(problem)
        return reports

    def _poll(self) -> list[Report]:
        if len(self._watchers) == 1:
            return [self._watchers[0].poll()]
        reports: dict[Watcher, Report] = {}

        def poll(watcher: Watcher) -> None:
            reports[watcher] = watcher.poll()

        # Daemons: Ctrl-C ends the program, whatever a server does.
        threads = [threading.Thread(target=poll, args=[watcher], daemon=True) for watcher in self._watchers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [reports[watcher] for watcher in self._watchers]

    def polls(self, interval: float, lasting: float = math.inf) -> Iterator[list[Report]]:
        """Yield polls, ``interval`` seconds apart; more seldom while no server answers.

        The last one comes when they went on for ``lasting`` seconds.
        """
        failures, end = 0, time.monotonic() + lasting
        while True:
            reports = self.poll()
            yield reports
            left = end - time.monotonic()
            if left <= 0:
                return
            failures = failures + 1 if all(report.error for report in reports) else 0
            time.sleep(min(pause(interval, failures, random()), left))  # noqa: S311 - a jitter


def telling(polls: Iterable[Sequence[Report]]) -> Iterator[Sequence[Report]]:
    """Yield the polls; say on stderr when a server can no longer be read, once for each reason.

    A table says so itself, in its place.
    """
    told: dict[str, str | None] = {}
    for reports in polls:
        for report in reports:
            if report.error is not None and told.get(report.target) != report.error:
                talk(report.error)
            told[report.target] = report.error
        yield reports


def watcher_of(
    source: Source, settings: Settings, states: Mapping[str, State] = {}, *, renamed: bool = True
) -> Watcher:
    """Return a watcher of a server. Raises `ConfigError` where its connection string cannot be read.

    A target that has no name is ``renamed`` by where it was reached, or keeps its name.
    """
    try:
        name = source.target or where(source.dsn)
        return Watcher(
            source.dsn, settings, target=source.target if renamed else name, state=states.get(name)
        )
    except BadConnectionString as error:
        raise ConfigError(f"{source.origin}: {error}") from None

"""The four that watch a server: the library's watcher, and the commands `serve`, `top` and `check`.

Each says in one text what it shows right now.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple, Self

from pglock_inspect.config import Settings
from pglock_inspect.model import Job
from pglock_inspect.watch import Watcher
from tests.support.command import COMMAND, Pglock
from tests.support.exporter import Exporter
from tests.support.tmux import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pglock_inspect.model import Report
    from tests.support.tmux import Terminal
    from tests.system.faults.stage import Stage

_INTERVAL = 0.2


class Watching:
    """A watcher, in a thread. `failures` is the number of its polls that have failed."""

    failures = 0
    report: Report | None = None

    def __init__(self, dsn: str, job: str) -> None:
        self._over = threading.Event()
        settings = Settings(jobs=(Job(job),), interval=_INTERVAL)
        self._watcher = Watcher(dsn, settings, sleep=self._sleep)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sleep(self, seconds: float) -> None:
        self._over.wait(seconds)

    def _run(self) -> None:
        with self._watcher as watcher:
            for report in watcher.reports():
                self.failures += report.error is not None
                self.report = report
                if self._over.is_set():
                    return

    def shows(self) -> str:
        report = self.report
        if report is None:
            return ""
        if report.error is not None:
            return f"{report.failure}: {report.error}"
        held = [f"{lock.name.text} held" for lock in report.locks if lock.granted and lock.name]
        return " ".join([*held, *(finding.rule for finding in report.findings)])

    def seconds(self, job: str) -> float:
        """How long the job has been held, as far as is known."""
        assert self.report
        [held] = [lock.held for lock in self.report.locks if lock.name and lock.name.text == job]
        assert held
        return held.seconds or 0.0


class Serving:
    """`serve`, scraped."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._before = Counter[str]()

    @property
    def failures(self) -> int:
        """The number of its polls that have failed."""
        return self._by_reason().total()

    def _by_reason(self) -> Counter[str]:
        samples = self._exporter.samples().items()
        failures = {s: value for s, value in samples if s.name == "pglock_poll_failures_total"}
        return Counter({dict(s.labels)["reason"]: int(value) for s, value in failures.items()})

    def forget(self) -> None:
        """Show from now on the reasons of polls that fail from now on."""
        self._before = self._by_reason()

    def value(self, metric: str) -> float | None:
        return next((v for s, v in self._exporter.samples().items() if s.name == metric), None)

    def shows(self) -> str:
        values = [(metric, self.value(metric)) for metric in ("pglock_up", "pglock_job_held")]
        numbers = [f"{metric} {value:g}" for metric, value in values if value is not None]
        reasons = [f'reason="{reason}"' for reason in self._by_reason() - self._before]
        rules = [
            'rule="{rule}"'.format(**dict(sample.labels))
            for sample, value in self._exporter.samples().items()
            if sample.name == "pglock_findings" and value
        ]
        return " ".join([*numbers, *reasons, *rules])


class Looking:
    """`top`, in a terminal."""

    def __init__(self, screen: Terminal) -> None:
        self._screen = screen

    def shows(self) -> str:
        return self._screen.text


class Checking:
    """`check`, which carries what it observed from one run to the next."""

    def __init__(self, pglock: Pglock) -> None:
        self._pglock = pglock

    def shows(self) -> str:
        done = self._pglock("check", "--state-file", "state", code=None)
        return f"{done.returncode}: {done.stdout}"


class Observers(NamedTuple):
    watcher: Watching
    serve: Serving
    top: Looking
    check: Checking


@contextmanager
def observing(stage: Stage, directory: Path) -> Iterator[Observers]:
    """Have all of them watch the server."""
    (directory / "pglock-inspect.toml").write_text(f'[[jobs]]\nname = "{stage.job}"\n', "utf-8")
    pglock = Pglock(directory, stage.dsn)
    every = f"{_INTERVAL * 1000:.0f}ms"
    top = [*COMMAND, "top", "--every", every]
    environment = pglock.environment(TERM="tmux-256color")
    with ExitStack() as opened:
        yield Observers(
            opened.enter_context(Watching(stage.dsn, stage.job)),
            Serving(opened.enter_context(Exporter(pglock, "--interval", every))),
            Looking(opened.enter_context(terminal(top, directory, environment, size=(200, 40)))),
            Checking(pglock),
        )

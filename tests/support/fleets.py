"""Targets that are polled as the exporter polls them, and what it would show of them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from pglock_inspect.config import Settings
from pglock_inspect.serve.exposition import exposition, negotiate
from pglock_inspect.serve.fleet import Fleet
from pglock_inspect.state_file import StateFile
from pglock_inspect.watch import Watcher
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pglock_inspect.model import Job, Report

INTERVAL = 0.1


class Sample(NamedTuple):
    """One line of the metrics; labels are sorted by name."""

    name: str
    labels: tuple[tuple[str, str], ...]


def read_samples(text: str) -> dict[Sample, float]:
    """The values of the metrics; fails where one series is there twice."""
    found: dict[Sample, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = Sample(sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, key
            found[key] = sample.value
    return found


class Watched:
    """A fleet, and what its metrics are now."""

    def __init__(self, fleet: Fleet, told: list[str]) -> None:
        self.fleet = fleet
        self.told = told

    def report(self, target: str = "here") -> Report:
        return self.fleet.latest(target)[0].report

    def text(self) -> str:
        return exposition(self.fleet.latest(), negotiate("")).decode()

    def value(self, metric: str, /, *, target: str = "here", **labels: str) -> float | None:
        wanted = Sample(metric, tuple(sorted({"target": target, **labels}.items())))
        return read_samples(self.text()).get(wanted)

    def names(self, target: str = "here") -> set[str]:
        """The names of all series of a target."""
        return {sample.name for sample in read_samples(self.text()) if ("target", target) in sample.labels}

    def await_value(self, metric: str, value: float, /, **labels: str) -> None:
        what = f"{metric} {labels} is {value}"
        wait_until(lambda: self.value(metric, **labels) == value, what, timeout=60)


@contextmanager
def watched(
    *jobs: Job, state_file: Path | None = None, interval: float = INTERVAL, **dsns: str
) -> Iterator[Watched]:
    """Polls servers by the names of their targets."""
    settings = Settings(jobs=jobs)
    file = StateFile(state_file) if state_file else None
    states: Mapping[str, object] = file.load() if file else {}
    watchers = [
        Watcher(dsn, settings, target=name, state=states.get(name))  # type: ignore[arg-type]
        for name, dsn in dsns.items()
    ]
    told: list[str] = []
    with Fleet(watchers, interval, told.append, file) as fleet:
        yield Watched(fleet, told)
    wait_until(
        lambda: all(target.join(0) for target in fleet.targets.values()), "the threads have ended", timeout=60
    )

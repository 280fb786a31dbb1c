"""How runs went, as metrics in a file for the node exporter's textfile collector, which is its own memory."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from pglock_inspect.errors import ConfigError
from pglock_inspect.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Outcome = Literal["success", "failure", "lost", "skipped", "unavailable"]


class _Family(NamedTuple):
    type: Literal["counter", "gauge"]
    documentation: str


_FAMILIES = {
    "pglock_runs": _Family("counter", "Runs by their outcome."),
    "pglock_run_skips_in_a_row": _Family(
        "gauge", "Runs skipped, since another was at work, after the last one."
    ),
    "pglock_run_duration_seconds": _Family("gauge", "How long the last run took."),
    "pglock_run_exit_code": _Family("gauge", "The exit code of the last run."),
    "pglock_run_last_success_timestamp_seconds": _Family(
        "gauge", "When the last run ended that had exit code 0."
    ),
}

Labels = tuple[tuple[str, str], ...]
Samples = dict[tuple[str, Labels], float]


class _Families(Collector):
    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        for name, (kind, documentation) in _FAMILIES.items():
            family = Metric(name, documentation, kind)
            sampled = f"{name}_total" if kind == "counter" else name
            for (of, labels), value in self._samples.items():
                if of == sampled:
                    family.add_sample(sampled, dict(labels), value)
            yield family


def read(path: Path) -> Samples:
    """Return what a file of this kind says; nothing where there is none. Raises `ConfigError` for another."""
    families: list[Metric] | None = None
    if path.exists() and not path.is_file():  # a device would be replaced, and a pipe never ends
        raise ConfigError(f"--textfile {path} is not a file: name one that is for this alone")
    try:
        families = list(text_string_to_metric_families(path.read_text("utf-8")))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"--textfile {path} cannot be read: {error.strerror}") from None
    except ValueError:
        pass
    if families is None or any(family.name not in _FAMILIES for family in families):
        raise ConfigError(f"--textfile {path} holds something else: name a file that is for this alone")
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def check(path: Path) -> None:
    """Raise `ConfigError` where nothing can be noted."""
    read(path)
    if not os.access(path.parent, os.W_OK):
        raise ConfigError(f"--textfile {path}: no file can be written in that directory")


def note(
    path: Path,
    name: str,
    outcome: Outcome,
    *,
    at: float,
    seconds: float | None = None,
    code: int | None = None,
) -> None:
    """Add a run that ended at a time of the epoch. Raises `ConfigError` and OSError."""
    mine = ("name", name)
    with _alone(path.parent):
        samples = read(path)
        for each in get_args(Outcome):
            samples.setdefault(("pglock_runs_total", (mine, ("outcome", each))), 0)
        samples["pglock_runs_total", (mine, ("outcome", outcome))] += 1
        skips = "pglock_run_skips_in_a_row", (mine,)
        if outcome == "skipped":
            samples[skips] = samples.get(skips, 0) + 1
        elif code is not None:
            samples[skips] = 0
            samples["pglock_run_exit_code", (mine,)] = code
        if seconds is not None:
            samples["pglock_run_duration_seconds", (mine,)] = seconds
        if outcome == "success":
            samples["pglock_run_last_success_timestamp_seconds", (mine,)] = at
        registry = CollectorRegistry()
        registry.register(_Families(samples))
        replace_file(path, generate_latest(registry), mode=0o644)  # the node exporter is another user


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep out whoever else writes there: the file is read, and then replaced."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

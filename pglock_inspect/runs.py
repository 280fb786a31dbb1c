"""When each configured job was last seen to hold its lock, over restarts of servers and watchers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.model import Instant, seconds_between

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pglock_inspect.holds import History
    from pglock_inspect.model import Job


_LONGEST_GAP = 0.6
"""Between two polls, as a share of ``min_held``: half of it, and what jitter and slow polls may add."""


class JobRuns(Struct, frozen=True):
    """What watching has shown of a job's runs.

    Since ``watched_since`` polls have been so close to each other that no run of ``min_held`` went unseen.
    ``last_poll`` and ``last_held`` are instants of polls; ``last_poll`` is None where nothing tells for how
    long nobody watched after it.
    """

    watched_since: Instant
    last_poll: Instant | None
    last_held: Instant | None = None


def run_key(job: Job) -> str:
    """Return what the runs of a job are kept under: there may be one of its name in each database."""
    return job.name if job.database is None else f"{job.database}\0{job.name}"


def note_runs(runs: Mapping[str, JobRuns], history: History, jobs: Iterable[Job]) -> Mapping[str, JobRuns]:
    """Return the runs by `run_key`, after one more poll."""
    assert history.snapshot is not None
    now = history.snapshot.taken_at
    stepped = history.clock_step if history.stepped_at_poll == history.poll else None
    held = {
        run_key(subject.name.job)
        for group in history.groups
        if group.rows.granted and not group.is_stamp
        for subject in group.subjects
        if subject.name and subject.name.job
    }
    noted = {}
    for job in jobs:
        key = run_key(job)
        before = runs.get(key) or JobRuns(watched_since=now, last_poll=now)
        if stepped is not None:
            before = _shifted(before, stepped)
        gap = None if before.last_poll is None else seconds_between(before.last_poll, now)
        # Where no time has passed, another server answers, whose clock is behind.
        unbroken = gap is not None and 0 <= gap <= _LONGEST_GAP * (job.min_held or 0)
        noted[key] = JobRuns(
            watched_since=before.watched_since if unbroken else now,
            last_poll=now,
            last_held=now if key in held else before.last_held,
        )
    return noted


def _shifted(runs: JobRuns, seconds: float) -> JobRuns:
    shift = round(seconds * 1_000_000)
    return replace(
        runs,
        watched_since=Instant(runs.watched_since + shift),
        last_poll=None if runs.last_poll is None else Instant(runs.last_poll + shift),
        last_held=None if runs.last_held is None else Instant(runs.last_held + shift),
    )

"""Jobs that should have run."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.model import seconds_between
from pglock_inspect.runs import run_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Job


class Overdue(NamedTuple):
    """A job not seen held for its whole ``every``; seconds. ``held_ago`` is None where it was never seen."""

    job: Job
    every: float
    watched: float
    held_ago: float | None


def overdue(scene: Scene) -> Iterator[Overdue]:
    """Yield the jobs that should have been seen: only those with ``min_held`` are watched without a gap.

    What is known of runs follows each step of the server's clock, so that nothing of it is void.
    """
    now = scene.snapshot.taken_at
    for job in scene.jobs:
        runs = scene.runs.get(run_key(job))
        if job.every is None or runs is None:
            continue
        watched = seconds_between(runs.watched_since, now)
        held_ago = None if runs.last_held is None else seconds_between(runs.last_held, now)
        if watched >= job.every and (held_ago is None or held_ago >= job.every):
            yield Overdue(job, job.every, watched, held_ago)


def look_at(job: Job) -> str:
    """Return what to do about a job that does not run, or not under the lock that is meant."""
    if job.key is not None:
        check = f"pglock-inspect identify {job.key}"
    elif job.match is not None or job.first is not None:
        check = "pglock-inspect ls"
    else:
        check = f"pglock-inspect key {shlex.quote(job.name)}"
    return f"look at its scheduler and its log, and whether it takes this lock: {check}"

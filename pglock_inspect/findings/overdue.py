"""Jobs that should have run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Job
    from pglock_inspect.runs import JobRuns


def overdue(scene: Scene) -> Iterator[tuple[Job, JobRuns, float]]:
    """Yield the jobs not held for their whole ``every``, with the seconds for which that was watched.

    Only jobs whose runs are long enough for polling to see (``min_held``) can be called overdue.
    """
    for job in scene.jobs:
        runs = scene.runs.get(job.name)
        if job.every is None or job.min_held is None or runs is None:
            continue
        watched = scene.age(runs.watched_since)
        held_ago = scene.age(runs.last_held)
        if watched is None or watched < job.every:
            continue
        if runs.last_held is None or held_ago is None or held_ago >= job.every:
            yield job, runs, watched

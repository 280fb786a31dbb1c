"""``never-seen``: a job has not run since watching began."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings.overdue import look_at, overdue
from pglock_inspect.findings.rule import Rule
from pglock_inspect.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each job never seen to hold its lock, not in its whole ``every``."""
    for job, every, watched, held_ago in overdue(scene):
        if held_ago is not None:
            continue
        yield Finding(
            rule="never-seen",
            severity="warning",
            summary=f"{job.name} was never seen to run, expected every {format_duration(every)}",
            evidence=f"never held in {format_duration(watched)} of watching without a gap",
            suggestion=look_at(job),
            job=job.name,
            database=job.database,
        )


NEVER_SEEN = Rule("never-seen", find)

"""``never-seen``: a job has not run since watching began."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings.overdue import overdue
from pglock_inspect.findings.rule import Rule
from pglock_inspect.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each job never seen to hold its lock, though not in its whole ``every``."""
    for job, runs, watched in overdue(scene):
        if runs.last_held is not None:
            continue
        yield Finding(
            rule="never-seen",
            severity="warning",
            summary=f"{job.name} was never seen to run, expected every {format_duration(job.every or 0)}",
            evidence=f"watched without a gap for {format_duration(watched)}",
            suggestion="look at its scheduler and its log; check its name and scheme: pglock-inspect key "
            f"{job.name}",
            job=job.name,
            database=job.database,
        )


NEVER_SEEN = Rule("never-seen", find)

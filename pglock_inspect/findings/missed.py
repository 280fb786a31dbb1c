"""``missed``: a job that was seen before has not run for too long."""

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
    """Yield a finding for each job seen before, and not in its whole ``every``."""
    for job, runs, watched in overdue(scene):
        if runs.last_held is None:
            continue
        since = scene.age(runs.last_held)
        ago = "longer" if since is None else format_duration(since)
        yield Finding(
            rule="missed",
            severity="critical",
            summary=f"{job.name} has not run for {ago}, expected every {format_duration(job.every or 0)}",
            evidence=f"last seen held {ago} ago; watched without a gap for {format_duration(watched)}",
            suggestion="look at its scheduler and its log; check its name and scheme: pglock-inspect key "
            f"{job.name}",
            job=job.name,
            database=job.database,
        )


MISSED = Rule("missed", find)

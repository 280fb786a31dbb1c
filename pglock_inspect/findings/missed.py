"""``missed``: a job that was seen before has not run for too long."""

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
    """Yield a finding for each job seen before, and not in its whole ``every``."""
    for job, every, watched, held_ago in overdue(scene):
        if held_ago is None:
            continue
        yield Finding(
            rule="missed",
            severity="critical",
            summary=f"{job.name} has not been seen to run for {format_duration(held_ago)}, "
            f"expected every {format_duration(every)}",
            evidence=f"last seen held {format_duration(held_ago)} ago; watched without a gap for "
            f"{format_duration(watched)}",
            suggestion=look_at(job),
            job=job.name,
            database=job.database,
        )


MISSED = Rule("missed", find)

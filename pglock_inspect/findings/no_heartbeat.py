"""``no-heartbeat``: the holder of a job with a heartbeat shows no life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each job whose holder has been silent for longer than its ``heartbeat``."""
    for group, subject in scene.held_subjects:
        job, session = subject.name.job if subject.name else None, group.session
        if job is None or job.heartbeat is None or session is None:
            continue
        silent = scene.age(session.state_change)
        if silent is None or silent < job.heartbeat:
            continue
        yield finding_about(
            scene,
            group,
            subject,
            rule="no-heartbeat",
            severity="critical",
            summary=f"{words.title(group, subject)}: {words.holder(group)} has been silent for "
            f"{format_duration(silent)}, a beat is due every {format_duration(job.heartbeat)}",
            evidence=f"{session.state} for {format_duration(silent)}; "
            f"{words.age(scene.held(group, subject))}",
            suggestion=f"look at its client ({session.client or 'unknown'}), and if it is gone or frozen: "
            f"{words.end_holder(group)}",
        )


NO_HEARTBEAT = Rule("no-heartbeat", find)

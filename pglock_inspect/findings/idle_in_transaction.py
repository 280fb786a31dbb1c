"""``idle-in-transaction``: the holder sits in a transaction and runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding


def find(scene: Scene, after: float) -> Iterator[Finding]:
    """Yield a finding for each name whose holder has been idle in a transaction for ``after`` seconds."""
    for group, subject in scene.held_subjects:
        session = group.session
        if session is None or not session.idle or session.state == "idle":
            continue
        idle = scene.age(session.state_change)
        if idle is None or idle < after:
            continue
        aborted = session.state == "idle in transaction (aborted)"
        yield finding_about(
            scene,
            group,
            subject,
            rule="idle-in-transaction",
            severity="warning",
            summary=f"{words.title(group, subject)}: {words.holder(group)} has been {session.state} "
            f"for {format_duration(idle)}",
            evidence=f"{words.age(scene.held(group, subject))}; in this state for {format_duration(idle)}",
            suggestion=f"let the application {'roll back' if aborted else 'commit or roll back'}, "
            f"or end it: {words.end_holder(group)}",
        )


IDLE_IN_TRANSACTION = Rule("idle-in-transaction", find, threshold=300, unit="seconds")

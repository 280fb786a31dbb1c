"""``idle-in-transaction``: the holder sits in a transaction and runs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding, Session


def find(scene: Scene, after: float) -> Iterator[Finding]:
    """Yield a finding for each name whose holder has been idle in a transaction for ``after`` seconds."""
    for group, subject in scene.held_subjects:
        session = group.session
        if session is None or not session.idle or session.state == "idle":
            continue
        idle = scene.age(session.state_change)
        if idle is None or idle < after:
            continue
        yield finding_about(
            scene,
            group,
            subject,
            rule="idle-in-transaction",
            severity="warning",
            summary=f"{words.title(group, subject)}: {words.holder(group)} has been {session.state} "
            f"for {format_duration(idle)}",
            evidence=f"{words.age(scene.held(group, subject))}; in this state for {format_duration(idle)}",
            suggestion=f"{_let_go(session)}, or end it: {words.end_holder(group)}",
        )


def _let_go(session: Session) -> str:
    if session.state == "idle in transaction":
        return "have the application commit or roll back"
    # An aborted transaction has let go of its own locks, unless it can go on from a savepoint.
    if session.xact_start is None:
        return "have the application roll back and unlock: this lock is the session's and outlives a ROLLBACK"
    return "have the application roll back"


IDLE_IN_TRANSACTION = Rule("idle-in-transaction", find, threshold=300, unit="seconds")

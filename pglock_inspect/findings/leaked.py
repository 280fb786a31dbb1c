"""``leaked``: held by a session that runs nothing, in no transaction, and has done other work since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding, Name


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each name whose holder is idle after a statement that has nothing to do with it."""
    for group, subject in scene.held_subjects:
        session, name = group.session, subject.name
        if session is None or not session.idle or session.state != "idle" or (name and name.long_lived):
            continue
        if not session.query or _is_about(session.query, name):
            continue
        idle = scene.age(session.state_change)
        if idle is None or (name and name.job and idle < (name.job.heartbeat or 0.0)):
            continue
        held = scene.held(group, subject)
        past_limit = held.seconds is not None and held.seconds >= scene.limits_of(name).max_held
        yield finding_about(
            scene,
            group,
            subject,
            rule="leaked",
            severity="warning" if past_limit else "info",
            summary=f"{words.title(group, subject)} may have been left behind: {words.holder(group)} has "
            f"been idle for {format_duration(idle)}, in no transaction",
            evidence=f"{words.age(held)}; idle for {format_duration(idle)}, its last statement a "
            f"{words.last_command(session)}",
            suggestion="have its application unlock there what it took, as often as it took it, or end the "
            f"session: {words.end_holder(group)}",
        )


def _is_about(statement: str, name: Name | None) -> bool:
    """Whether a statement may have taken or used the lock: it locks, or it says the name."""
    return "advisory" in statement.lower() or (name is not None and name.text in statement)


LEAKED = Rule("leaked", find)

"""``pooler``: several clients use the session that holds a session-level lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each hold during which the application of its session changed."""
    for group, subject in scene.held_subjects:
        if len(group.applications) <= 1:
            continue
        applications = ", ".join(repr(name) for name in group.applications)
        yield finding_about(
            scene,
            group,
            subject,
            rule="pooler",
            severity="warning",
            summary=f"{words.title(group, subject)}: its session, {words.holder(group)}, is used by "
            "several clients; behind a pooler each of them gets this lock",
            evidence=f"application_name while held: {applications}; {words.age(scene.held(group, subject))}",
            suggestion="take it with pg_advisory_xact_lock in one transaction, or connect without the pooler",
        )


POOLER = Rule("pooler", find)

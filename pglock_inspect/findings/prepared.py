"""``prepared``: held by a prepared transaction, which no session will end by itself."""

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
    """Yield a finding for each name that a prepared transaction has held for ``after`` seconds."""
    for group, subject in scene.held_subjects:
        if group.prepared is None:
            continue
        held = scene.held(group, subject)
        if held.at_least is None or held.at_least < after:
            continue
        name = subject.name
        limit = scene.limits_of(name).max_held
        yield finding_about(
            scene,
            group,
            subject,
            rule="prepared",
            severity="critical" if held.at_least >= limit else "warning",
            summary=f"{words.title(group, subject)} {words.be(subject)} held by {words.holder(group)}, "
            f"prepared {format_duration(held.at_least)} ago and not ended since",
            evidence=f"{words.age(held)}; owner {group.prepared.owner or 'unknown'}, "
            f"database {group.prepared.database or 'unknown'}",
            suggestion=words.rollback_prepared(group),
        )


PREPARED = Rule("prepared", find, threshold=60, unit="seconds")

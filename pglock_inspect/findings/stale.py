"""``stale``: held for longer than the job's ``max_held``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about
from pglock_inspect.findings.scene import Scene
from pglock_inspect.holds import polls_in_a_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding, Held, HoldGroup, Severity, Subject


def find(scene: Scene, polls_for_critical: float) -> Iterator[Finding]:
    """Yield a finding for each name held too long, and one for all of a group's keys without a name."""
    for group, subject in scene.held_subjects:
        name = subject.name
        if name and name.long_lived:
            continue
        max_held = scene.limits_of(name).max_held
        held = scene.held(group, subject)
        if held.seconds is None or held.seconds < max_held:
            continue
        yield finding_about(
            scene,
            group,
            subject,
            rule="stale",
            severity=_severity(scene, group, subject, held, polls_for_critical),
            summary=f"{words.title(group, subject)} is stale: {words.holder(group)} has held it for "
            f"{format_duration(held.seconds)}, allowed are {format_duration(max_held)}",
            evidence=words.age(held),
            suggestion=words.end_holder(group),
        )


def _severity(scene: Scene, group: HoldGroup, subject: Subject, held: Held, polls: float) -> Severity:
    if subject.name is None or subject.name.job is None:
        return "warning"
    proven = held.at_least is not None and held.at_least >= scene.limits_of(subject.name).max_held
    if held.evidence == "observed" and not proven and polls_in_a_row(group, scene.history) < polls:
        return "warning"
    return "critical"


STALE = Rule("stale", find, threshold=60, unit="number")

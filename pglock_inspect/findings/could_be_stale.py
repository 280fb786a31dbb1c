"""``could-be-stale``: nothing proves that a lock is within its limit."""

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
    """Yield a finding where only the upper bound of an age reaches the limit."""
    for group, subject, held in scene.aged_subjects:
        name = subject.name
        max_held = scene.limits_of(name).max_held
        if held.at_most is None or held.at_most < max_held or (held.seconds or 0.0) >= max_held:
            continue
        if name and name.long_lived:
            continue
        yield finding_about(
            scene,
            group,
            subject,
            rule="could-be-stale",
            severity="info",
            summary=f"{words.title(group, subject)} could be stale: {words.holder(group)} may have held "
            f"{words.it(subject)} for up to {format_duration(held.at_most)}, "
            f"allowed are {format_duration(max_held)}",
            evidence=words.age(held),
            suggestion="keep watching, or have the holder stamp its lock: pglock-inspect top",
        )


COULD_BE_STALE = Rule("could-be-stale", find)

"""``holder-blocked``: a holder waits for a lock itself, so that its own waiters wait for the root of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding, HoldGroup


def find(scene: Scene, after: float) -> Iterator[Finding]:
    """Yield a finding for each name whose holder has waited for a lock for ``after`` seconds."""
    for group, subject in scene.held_subjects:
        wait = scene.wait_of(group.rows.pid)
        if wait is None or wait.seconds is None or wait.seconds < after:
            continue
        yield finding_about(
            scene,
            group,
            subject,
            rule="holder-blocked",
            severity="warning",
            summary=f"{words.title(group, subject)} {words.be(subject)} held by {words.holder(group)}, which "
            f"has itself waited for {words.wait(wait)} for {format_duration(wait.seconds)}"
            f"{_root(scene, group)}",
            evidence=f"waits {format_duration(wait.seconds)}, blocked by {_blockers(scene, group)}; "
            f"{words.age(scene.held(group, subject))}",
            suggestion=f"see the way to the root, and end that or this wait: {words.why(group)}",
        )


def _root(scene: Scene, group: HoldGroup) -> str:
    roots = scene.roots(group.rows.pid)
    return f", in the end for {', '.join(words.blocker(scene, pid) for pid in roots)}" if roots else ""


def _blockers(scene: Scene, group: HoldGroup) -> str:
    blockers = scene.ahead(group)
    return ", ".join(f"pid {pid}" if pid else "a prepared transaction" for pid in blockers) or "nobody now"


HOLDER_BLOCKED = Rule("holder-blocked", find, threshold=10, unit="seconds")

"""``waiting-long``: somebody has waited for a lock for longer than ``max_wait``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding, HoldGroup, Severity


def find(scene: Scene, share_of_connections: float) -> Iterator[Finding]:
    """Yield a finding for each waiter; critical where waiters take that share of all connections."""
    crowded = len(scene.waits) >= share_of_connections * scene.snapshot.server.max_connections
    severity: Severity = "critical" if crowded else "warning"
    for waiter in scene.waits:
        waited = scene.waited(waiter)
        for subject in waiter.subjects:
            name = subject.name
            limit = scene.limits_of(name).max_wait
            if waited is None or waited < limit:
                continue
            blockers = scene.blockers(waiter)
            yield finding_about(
                scene,
                waiter,
                subject,
                rule="waiting-long",
                severity=severity,
                summary=f"{words.title(waiter, subject)}: {words.holder(waiter)} has waited for "
                f"{format_duration(waited)}, allowed are {format_duration(limit)}{_blocked_by(blockers)}",
                evidence=f"waited {format_duration(waited)}; {len(scene.waits)} waiters on "
                f"{scene.snapshot.server.max_connections} connections",
                suggestion=_suggestion(waiter, blockers),
            )


def _blocked_by(blockers: tuple[HoldGroup, ...]) -> str:
    return f"; held by {', '.join(words.holder(group) for group in blockers)}" if blockers else ""


def _suggestion(waiter: HoldGroup, blockers: tuple[HoldGroup, ...]) -> str:
    give_up = words.end_waiter(waiter)
    if not blockers:
        return f"give up waiting: {give_up}"
    return (
        f"see why it is held: pglock-inspect why {words.process(blockers[0])}; or give up waiting: {give_up}"
    )


WAITING_LONG = Rule("waiting-long", find, threshold=0.25, unit="share")

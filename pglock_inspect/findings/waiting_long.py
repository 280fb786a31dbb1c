"""``waiting-long``: somebody has waited for a lock for longer than ``max_wait``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
            blockers, ahead = scene.blockers(waiter), scene.ahead(waiter)
            yield finding_about(
                scene,
                waiter,
                subject,
                rule="waiting-long",
                severity=severity,
                summary=f"{words.title(waiter, subject)}: {words.holder(waiter)} has waited for "
                f"{format_duration(waited)}, allowed are {format_duration(limit)}"
                f"{_by(scene, blockers, ahead)}",
                evidence=f"waited {format_duration(waited)}; {len(scene.waits):,} waiting, "
                f"{scene.snapshot.server.max_connections:,} connections at most",
                suggestion=_suggestion(waiter, blockers),
            )


def _by(scene: Scene, blockers: Sequence[HoldGroup], ahead: Sequence[int]) -> str:
    """Return who holds it; where no holder is in the way, who is ahead in the queue."""
    if blockers:
        more = f" and {len(blockers) - 1:,} more" if len(blockers) > 1 else ""
        return f"; held by {words.holder(blockers[0])}{more}"
    return f"; queued behind {words.blocker(scene, ahead[0])}" if ahead else ""


def _suggestion(waiter: HoldGroup, blockers: Sequence[HoldGroup]) -> str:
    why = words.why(blockers[0] if blockers else waiter)
    return f"see what is in the way: {why}; to give up waiting: {words.end_waiter(waiter)}"


WAITING_LONG = Rule("waiting-long", find, threshold=0.25, unit="share")

"""``clock-step``: the server's clock stepped, so that what was proven before is void."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule
from pglock_inspect.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene


def find(scene: Scene, polls: float) -> Iterator[Finding]:
    """Yield a finding for that many polls after the step."""
    history = scene.history
    if history.clock_step is None or history.stepped_at_poll is None:
        return
    if history.poll - history.stepped_at_poll >= polls:
        return
    ahead = "forward" if history.clock_step > 0 else "back"
    yield Finding(
        rule="clock-step",
        severity="info",
        summary=f"the server's clock stepped {ahead} by {format_duration(round(abs(history.clock_step)))}: "
        "ages from before are unknown",
        evidence=f"{history.clock_step:+.1f} s against the monotonic clock, "
        f"{words.count(history.poll - history.stepped_at_poll, 'poll')} ago",
        suggestion="have the clock of the server's host slewed, not stepped; see there what sets it: "
        "chronyc tracking, or timedatectl timesync-status",
    )


CLOCK_STEP = Rule("clock-step", find, threshold=60, unit="number")

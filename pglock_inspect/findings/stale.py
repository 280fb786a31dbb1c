"""``stale``: held for longer than the job's ``max_held``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.ages import polls_in_a_row
from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding, HoldGroup


def find(scene: Scene, polls_for_critical: float) -> Iterator[Finding]:
    """Yield a finding for each name held too long, and one for all of a group's keys without a name.

    What polls alone tell becomes critical after so many of them in a row within one statement, or after
    fifteen times as many: a job that is under its lock for 98 % of the time is seen so in 60 polls in a row
    with a probability of 0.3, in 900 of 10^-8.
    """
    for group, subject, held in scene.aged_subjects:
        name = subject.name
        max_held = scene.limits_of(name).max_held
        if held.seconds is None or held.seconds < max_held or (name and name.long_lived):
            continue
        proven = held.at_least is not None and held.at_least >= max_held
        told = (
            proven
            or held.evidence != "observed"
            or polls_in_a_row(group, scene.history) >= _polls_needed(scene, group, polls_for_critical)
        )
        yield finding_about(
            scene,
            group,
            subject,
            rule="stale",
            severity="critical" if name and name.job and told else "warning",
            summary=f"{words.title(group, subject)} {words.be(subject)} stale: {words.holder(group)} "
            f"{'has' if proven or held.evidence == 'stamp' else 'seems to have'} held {words.it(subject)} "
            f"for {format_duration(held.seconds)}, allowed are {format_duration(max_held)}",
            evidence=words.age(held),
            suggestion=words.end_holder(group),
        )


def _polls_needed(scene: Scene, group: HoldGroup, within_a_statement: float) -> float:
    running = scene.age(group.session.query_start) if group.session else None
    seen = scene.age(group.sighting.first_seen)
    one_statement = running is not None and seen is not None and running >= seen
    return within_a_statement if one_statement else _OVER_SEVERAL * within_a_statement


_OVER_SEVERAL = 15

STALE = Rule("stale", find, threshold=60, unit="number")

"""``stamp-mismatch``: a lock that looks like a stamp and does not count as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about
from pglock_inspect.keys import signed
from pglock_inspect.model import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding


_NOW = "floor(extract(epoch FROM clock_timestamp()))::bigint::bit(32)::int"


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each stamp that does not count, with the reason."""
    for group, key, reason in scene.history.stamp_mismatches:
        shown = group.rows.key(key)
        yield finding_about(
            scene,
            group,
            Subject(None, frozenset({key})),
            rule="stamp-mismatch",
            severity="info",
            summary=f"key {shown} of {words.holder(group)} looks like a stamp but does not count: {reason}",
            evidence=f"shared lock {shown} in database {scene.database_name(group)}",
            suggestion="take a stamp once, in the lock's session and right after the lock: "
            f"SELECT pg_try_advisory_lock_shared({signed(key >> 32, 32)}, {_NOW})",
        )


STAMP_MISMATCH = Rule("stamp-mismatch", find)

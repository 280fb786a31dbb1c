"""``many-locks-one-session``: one session holds very many advisory locks."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule
from pglock_inspect.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene


def find(scene: Scene, most: float) -> Iterator[Finding]:
    """Yield a finding for each session that holds ``most`` advisory locks or more."""
    numbers = Counter[int]()
    for group in scene.holds:
        if group.rows.pid is not None:
            numbers[group.rows.pid] += len(group.keys)
    for pid, number in numbers.items():
        if number >= most:
            groups = [group for group in scene.holds if group.rows.pid == pid]
            names = {subject.name for group in groups for subject in group.subjects}
            name = names.pop() if len(names) == 1 else None
            yield Finding(
                rule="many-locks-one-session",
                severity="warning",
                summary=f"{words.holder(groups[0])} holds {words.count(number, 'advisory lock')}"
                f"{f' of {name.text}' if name else ''}",
                evidence=f"{number:,} of {scene.snapshot.lock_table_rows:,} rows of the lock table; "
                f"{scene.snapshot.server.lock_slots_guaranteed:,} are guaranteed",
                suggestion="look for a lock taken in a loop, or in a WHERE clause that runs before a LIMIT; "
                f"to see what that session does: pglock-inspect why {pid}",
                job=name.text if name else None,
                pid=pid,
                database=scene.database_name(groups[0]),
                about=tuple((group, group.keys) for group in groups),
            )


MANY_LOCKS_ONE_SESSION = Rule("many-locks-one-session", find, threshold=100, unit="number")

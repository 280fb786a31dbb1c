"""``pooler``: the session that holds a session-level lock goes by several names, as a pooler's do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each hold during which the application of its session changed.

    Names count only while the session is in no transaction: then the lock is the session's own, and whoever
    the session is handed to next has it as well. An application may rename its session by itself, though.
    """
    for group, subject in scene.held_subjects:
        if len(group.applications) <= 1:
            continue
        applications = ", ".join(repr(name) for name in group.applications)
        yield finding_about(
            scene,
            group,
            subject,
            rule="pooler",
            severity="warning",
            summary=f"{words.title(group, subject)}: {words.holder(group)} went by "
            f"{len(group.applications)} names while it held {words.it(subject)}; where a pooler hands the "
            "session on, every client of it has this lock",
            evidence=f"application_name while held: {applications}; {words.age(scene.held(group, subject))}",
            suggestion="look for a pooler in its path: pglock-inspect doctor; behind one, take the lock with "
            "pg_advisory_xact_lock() in the job's one transaction, or connect without it",
        )


POOLER = Rule("pooler", find)

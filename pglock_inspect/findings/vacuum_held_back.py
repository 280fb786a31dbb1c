"""``vacuum-held-back``: the snapshot of a holder or waiter keeps VACUUM from removing dead rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding


_MOST_TRANSACTIONS = 1_000_000


def find(scene: Scene, after: float) -> Iterator[Finding]:
    """Yield a finding for each snapshot that is ``after`` seconds or a million transactions old.

    The lock itself holds nothing back: a session has a ``backend_xmin`` while it runs a statement, in
    READ COMMITTED, or has written or keeps a snapshot.
    """
    for group in scene.groups:
        session = group.session
        if session is None or session.xmin_age is None:
            continue
        open_for = scene.age(session.xact_start)
        if session.xmin_age < _MOST_TRANSACTIONS and (open_for is None or open_for < after):
            continue
        subject = group.subjects[0]
        verb = "holds" if group.rows.granted else "waits for"
        opened = "an unknown time" if open_for is None else format_duration(open_for)
        yield finding_about(
            scene,
            group,
            subject,
            rule="vacuum-held-back",
            severity="warning",
            summary=f"{words.holder(group)}, which {verb} {words.title(group, subject)}, keeps VACUUM from "
            f"removing dead rows: its transaction has been open for {opened}",
            evidence=f"backend_xmin is {session.xmin_age:,} transactions old; transaction open for {opened}",
            suggestion="take the lock outside of a transaction, or wait with pg_try_advisory_lock in a loop; "
            f"now: {words.end_holder(group) if group.rows.granted else words.end_waiter(group)}",
        )


VACUUM_HELD_BACK = Rule("vacuum-held-back", find, threshold=3600, unit="seconds")

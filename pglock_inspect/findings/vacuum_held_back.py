"""``vacuum-held-back``: the snapshot of a holder or waiter keeps VACUUM from removing dead rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding, Session


_MOST_TRANSACTIONS = 1_000_000
_ONE_SNAPSHOT = re.compile(r"(?!\s*(?:call|do)\b)[^;]*+;?+\s*+", re.IGNORECASE)
"""A statement that keeps its snapshot from start to end, and is the only one of its text."""


def find(scene: Scene, after: float) -> Iterator[Finding]:
    """Yield a finding for each process that holds back VACUUM by ``after`` seconds or a million transactions.

    The lock itself holds nothing back: a session does while it runs a statement, and in a transaction once it
    has written or where it keeps its snapshot.
    """
    processes = {group.rows.pid: group for group in (*scene.holds, *scene.waits)}
    for group in processes.values():
        session = group.session
        if session is None or session.xmin_age is None:
            continue
        kept = _kept_for(scene, session)
        long = kept is not None and kept >= after
        if not long and session.xmin_age < _MOST_TRANSACTIONS:
            continue
        subject = group.subjects[0]
        transactions = words.count(session.xmin_age, "transaction")
        lasting = f"at least {format_duration(kept)}" if kept is not None and long else transactions
        opened = scene.age(session.xact_start)
        yield finding_about(
            scene,
            group,
            subject,
            rule="vacuum-held-back",
            severity="warning",
            summary=f"{words.title(group, subject)}: {words.holder(group)}, which "
            f"{'holds' if group.rows.granted else 'waits for'} {words.it(subject)}, has kept VACUUM from "
            f"removing dead rows for {lasting}",
            evidence=f"its snapshot or transaction is {transactions} old; transaction open for "
            f"{'an unknown time' if opened is None else format_duration(opened)}",
            suggestion=f"end its transaction, and take the lock outside of one: {words.end_holder(group)}"
            if group.rows.granted
            else "wait for such locks with pg_try_advisory_lock() in a loop; to end this wait: "
            f"{words.end_waiter(group)}",
        )


def _kept_for(scene: Scene, session: Session) -> float | None:
    """Return for how long a session has had its snapshot or its transaction id at the least."""
    if session.idle:
        return scene.age(session.state_change)
    wait, statement = scene.wait_of(session.pid), None
    if session.query_start and session.query and _ONE_SNAPSHOT.fullmatch(session.query):
        statement = scene.age(max(session.query_start, session.xact_start or session.query_start))
    ages = (wait.seconds if wait else None, statement)
    return max((age for age in ages if age is not None), default=None)


VACUUM_HELD_BACK = Rule("vacuum-held-back", find, threshold=3600, unit="seconds")

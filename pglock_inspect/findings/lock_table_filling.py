"""``lock-table-filling``: the shared lock table comes near to what is guaranteed to fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule
from pglock_inspect.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene


def find(scene: Scene, share: float) -> Iterator[Finding]:
    """Yield a finding where locks take that share of the guaranteed slots; a warning from all of them on."""
    rows, guaranteed = scene.snapshot.lock_table_rows, scene.snapshot.server.lock_slots_guaranteed
    if rows < share * guaranteed or not guaranteed:
        return
    advisory = sum(len(group.keys) for group in scene.history.groups)
    yield Finding(
        rule="lock-table-filling",
        severity="warning" if rows >= guaranteed else "info",
        summary=f"the lock table holds {words.count(rows, 'lock')}, {guaranteed:,} are guaranteed to fit; "
        "when it is full, statements and logins fail",
        evidence=f"{rows / guaranteed:.0%} of max_locks_per_transaction * (max_connections + "
        f"max_prepared_transactions); {advisory:,} of {rows:,} are advisory",
        suggestion="raise max_locks_per_transaction and restart, or end what holds most of them: SELECT pid, "
        "count(*) FROM pg_locks WHERE NOT fastpath GROUP BY pid ORDER BY count DESC LIMIT 5",
    )


LOCK_TABLE_FILLING = Rule("lock-table-filling", find, threshold=0.8, unit="share")

"""The list of rules, and their verdict on a scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pglock_inspect.findings.clock_step import CLOCK_STEP
from pglock_inspect.findings.collision import COLLISION
from pglock_inspect.findings.could_be_stale import COULD_BE_STALE
from pglock_inspect.findings.hidden_deadlock import HIDDEN_DEADLOCK
from pglock_inspect.findings.holder_blocked import HOLDER_BLOCKED
from pglock_inspect.findings.idle_in_transaction import IDLE_IN_TRANSACTION
from pglock_inspect.findings.leaked import LEAKED
from pglock_inspect.findings.lock_table_filling import LOCK_TABLE_FILLING
from pglock_inspect.findings.many_locks_one_session import MANY_LOCKS_ONE_SESSION
from pglock_inspect.findings.missed import MISSED
from pglock_inspect.findings.never_seen import NEVER_SEEN
from pglock_inspect.findings.no_heartbeat import NO_HEARTBEAT
from pglock_inspect.findings.no_pg_monitor import NO_PG_MONITOR
from pglock_inspect.findings.pooler import POOLER
from pglock_inspect.findings.prepared import PREPARED
from pglock_inspect.findings.same_key_two_databases import SAME_KEY_TWO_DATABASES
from pglock_inspect.findings.stale import STALE
from pglock_inspect.findings.stamp_mismatch import STAMP_MISMATCH
from pglock_inspect.findings.unnamed import UNNAMED
from pglock_inspect.findings.vacuum_held_back import VACUUM_HELD_BACK
from pglock_inspect.findings.waiting_long import WAITING_LONG
from pglock_inspect.model import SEVERITIES, RuleSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.findings.rule import Rule
    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding

RULES: tuple[Rule, ...] = (
    STALE,
    HIDDEN_DEADLOCK,
    NO_HEARTBEAT,
    MISSED,
    PREPARED,
    WAITING_LONG,
    HOLDER_BLOCKED,
    LEAKED,
    IDLE_IN_TRANSACTION,
    POOLER,
    VACUUM_HELD_BACK,
    NEVER_SEEN,
    COLLISION,
    MANY_LOCKS_ONE_SESSION,
    LOCK_TABLE_FILLING,
    COULD_BE_STALE,
    SAME_KEY_TWO_DATABASES,
    STAMP_MISMATCH,
    CLOCK_STEP,
    UNNAMED,
    NO_PG_MONITOR,
)


def judge(scene: Scene, settings: Mapping[str, RuleSettings] | None = None) -> tuple[Finding, ...]:
    """Return all findings, the worst first, with the severities and thresholds that ``settings`` changes."""
    findings: list[Finding] = []
    for rule in RULES:
        changed = (settings or {}).get(rule.name, RuleSettings())
        if changed.severity == "off":
            continue
        threshold = rule.threshold if changed.threshold is None else changed.threshold
        found = rule.find(scene, threshold)
        findings += (replace(f, severity=changed.severity) for f in found) if changed.severity else found
    return tuple(sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity)))

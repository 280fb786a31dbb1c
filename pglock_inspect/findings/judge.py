"""The list of rules, and their verdict on a scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pglock_inspect.findings.could_be_stale import COULD_BE_STALE
from pglock_inspect.findings.idle_in_transaction import IDLE_IN_TRANSACTION
from pglock_inspect.findings.no_pg_monitor import NO_PG_MONITOR
from pglock_inspect.findings.prepared import PREPARED
from pglock_inspect.findings.stale import STALE
from pglock_inspect.findings.stamp_mismatch import STAMP_MISMATCH
from pglock_inspect.findings.unnamed import UNNAMED
from pglock_inspect.findings.waiting_long import WAITING_LONG
from pglock_inspect.model import SEVERITIES, RuleSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.findings.rule import Rule
    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding

RULES: tuple[Rule, ...] = (
    STALE,
    PREPARED,
    IDLE_IN_TRANSACTION,
    WAITING_LONG,
    COULD_BE_STALE,
    STAMP_MISMATCH,
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

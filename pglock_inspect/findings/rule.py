"""What a rule is, and how it tells what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct

from pglock_inspect.findings.scene import Scene, only_key
from pglock_inspect.model import Finding, HoldGroup, Severity, Subject


class Rule(Struct, frozen=True):
    """One thing worth telling: when, and in which words.

    ``find`` gets the scene and the rule's threshold, of which ``unit`` says what it is: a share lies between
    0 and 1. A rule whose unit is None has no threshold to heed.
    """

    name: str
    find: Callable[[Scene, float], Iterator[Finding]]
    threshold: float = 0.0
    unit: Literal["seconds", "number", "share"] | None = None


def finding_about(
    scene: Scene,
    group: HoldGroup,
    subject: Subject,
    *,
    rule: str,
    severity: Severity,
    summary: str,
    evidence: str,
    suggestion: str,
) -> Finding:
    """Return a finding about those keys of a group that share a name, or have none."""
    return Finding(
        rule=rule,
        severity=severity,
        summary=summary,
        evidence=evidence,
        suggestion=suggestion,
        job=subject.name.text if subject.name else None,
        pid=group.rows.pid,
        database=scene.database_name(group),
        key=only_key(group, subject.keys),
        about=((group, subject.keys),),
    )

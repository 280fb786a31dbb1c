"""What a poll found that was not found before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.model import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pglock_inspect.model import Finding


def identity(finding: Finding) -> tuple[object, ...]:
    """Return what tells a finding from another one; numbers in its text change from poll to poll."""
    return finding.rule, finding.severity, finding.job, finding.database, finding.key, finding.pid


def news(findings: Iterable[Finding], before: Iterable[Finding]) -> list[Finding]:
    """Return the findings that are not among those before, the worst first."""
    known = set(map(identity, before))
    new = [finding for finding in findings if identity(finding) not in known]
    return sorted(new, key=lambda finding: -SEVERITIES.index(finding.severity))

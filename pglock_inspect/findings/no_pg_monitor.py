"""``no-pg-monitor``: the role may not see what other users' sessions do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule
from pglock_inspect.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield one finding where other users' activity is hidden."""
    if scene.snapshot.server.privileged:
        return
    role = '"' + scene.snapshot.server.role.replace('"', '""') + '"'
    holders = {group.rows.pid: group.session for group in scene.holds}
    hidden = sum(1 for session in holders.values() if session and session.backend_type is None)
    yield Finding(
        rule="no-pg-monitor",
        severity="info",
        summary="the role of this connection may not see what other users' sessions do, nor since when",
        evidence=f"{hidden:,} of {words.count(len(holders), 'holder')} hidden",
        suggestion=f"GRANT pg_monitor TO {role}",
    )


NO_PG_MONITOR = Rule("no-pg-monitor", find)

"""``same-key-two-databases``: one name is held in two databases, whose locks do not exclude each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding, HoldGroup, Subject


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each configured or learned name that is held in more than one database."""
    if len({group.rows.database for group in scene.holds}) < 2:  # noqa: PLR2004 - no need to look at the keys
        return
    holders: dict[tuple[int, int], list[tuple[HoldGroup, Subject]]] = {}
    for group, subject in scene.held_subjects:
        if subject.name and subject.name.source != "known":
            for key in subject.keys:
                holders.setdefault((group.rows.objsubid, key), []).append((group, subject))
    for (_, key), held in holders.items():
        databases = sorted({scene.database_name(group) for group, _ in held})
        if len(databases) > 1:
            group, subject = held[0]
            yield replace(
                finding_about(
                    scene,
                    group,
                    subject,
                    rule="same-key-two-databases",
                    severity="info",
                    summary=f"{words.title(group, subject)} is held in {len(databases)} databases: advisory "
                    "locks of different databases do not exclude each other",
                    evidence="; ".join(f"{scene.database_name(g)}: {words.holder(g)}" for g, _ in held),
                    suggestion="take it in one and the same database wherever the job must run once",
                ),
                pid=None,
                database=None,
                key=group.rows.key(key),
                about=tuple((g, frozenset({key})) for g, _ in held),
            )


SAME_KEY_TWO_DATABASES = Rule("same-key-two-databases", find)

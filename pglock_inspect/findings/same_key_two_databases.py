"""``same-key-two-databases``: one name is held in two databases, whose locks do not exclude each other."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule
from pglock_inspect.findings.scene import only_key
from pglock_inspect.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import HoldGroup, Subject


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each configured or learned name whose keys are held in more than one database."""
    if len({group.rows.database for group in scene.holds}) < 2:  # noqa: PLR2004 - no need to look at the keys
        return
    by_name: dict[tuple[str, int], list[tuple[HoldGroup, Subject]]] = {}
    for group, subject in scene.held_subjects:
        if subject.name and subject.name.source != "known":
            by_name.setdefault((subject.name.text, group.rows.objsubid), []).append((group, subject))
    for held in by_name.values():
        keys = _in_several_databases(held)
        about = tuple((group, subject.keys & keys) for group, subject in held if subject.keys & keys)
        if not about:
            continue
        databases = sorted({scene.database_name(group) for group, _ in about})
        group, subject = held[0]
        yield Finding(
            rule="same-key-two-databases",
            severity="info",
            summary=f"{words.title(group, subject)} is held in {len(databases)} databases: advisory locks of "
            "different databases do not exclude each other",
            evidence="; ".join(f"{scene.database_name(group)}: {words.holder(group)}" for group, _ in about),
            suggestion="have all of it lock in one database, where it must run once: pglock-inspect ls",
            job=subject.name.text if subject.name else None,
            key=only_key(group, keys),
            about=about,
        )


def _in_several_databases(held: Sequence[tuple[HoldGroup, Subject]]) -> frozenset[int]:
    in_database: dict[int, frozenset[int]] = {}
    for group, subject in held:
        in_database[group.rows.database] = in_database.get(group.rows.database, frozenset()) | subject.keys
    several: frozenset[int] = frozenset()
    for one, other in combinations(in_database.values(), 2):
        several |= one & other
    return several


SAME_KEY_TWO_DATABASES = Rule("same-key-two-databases", find)

"""``unnamed``: keys that nothing gives a name to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about
from pglock_inspect.findings.scene import only_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield one finding for all keys of a group without a name."""
    for group, subject in scene.held_subjects():
        if subject.name:
            continue
        key = only_key(group, subject.keys)
        yield finding_about(
            scene,
            group,
            subject,
            rule="unnamed",
            severity="info",
            summary=f"{words.title(group, subject)}, held by {words.holder(group)}, "
            f"{'has' if key else 'have'} no name",
            evidence=f"{len(subject.keys):,} unnamed in database {scene.database_name(group)}",
            suggestion=f"name it in the configuration: [[jobs]] key = {_toml(key)}, name = …"
            if key and key.value is not None
            else "name them in the configuration: [[jobs]] with key = …, and name = …",
        )


def _toml(key: object) -> str:
    text = str(key)
    return f"[{text.replace(',', ', ')}]" if "," in text else text


UNNAMED = Rule("unnamed", find)

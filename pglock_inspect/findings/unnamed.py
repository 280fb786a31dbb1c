"""``unnamed``: keys that nothing gives a name to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule
from pglock_inspect.findings.scene import only_key
from pglock_inspect.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import HoldGroup, Subject

_GET_TO_KNOW_ALL = (
    "see each: pglock-inspect ls; and configure a job for each key, or for all with one first half"
)


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield one finding for all keys of a database that are held and have no name."""
    by_database: dict[int, list[tuple[HoldGroup, Subject]]] = {}
    for group, subject in scene.held_subjects:
        if subject.name is None:
            by_database.setdefault(group.rows.database, []).append((group, subject))
    for oid, unnamed in by_database.items():
        database = scene.name_of_database(oid)
        number = sum([len(subject.keys) for _, subject in unnamed])
        group, subject = unnamed[0]
        key = only_key(group, subject.keys) if len(unnamed) == 1 else None
        yield Finding(
            rule="unnamed",
            severity="info",
            summary=f"{words.title(group, subject) if key else f'{number:,} locks'} in database {database}, "
            f"held by {_holders(unnamed)}, {'has' if key else 'have'} no name",
            evidence=f"{number:,} unnamed in database {database}",
            suggestion=get_to_know(key) if key else _GET_TO_KNOW_ALL,
            pid=group.rows.pid if len(unnamed) == 1 else None,
            database=database,
            key=key,
            about=tuple([(group, subject.keys) for group, subject in unnamed]),
        )


def _holders(unnamed: Sequence[tuple[HoldGroup, Subject]]) -> str:
    number = len({group.rows.pid or group.rows.virtual_transaction for group, _ in unnamed})
    return words.holder(unnamed[0][0]) if number == 1 else words.count(number, "holder")


def get_to_know(key: AdvisoryKey) -> str:
    """Return what to do about a key without a name."""
    return f"see what is known of it: pglock-inspect identify {key}; {give_a_name(key)}"


def give_a_name(key: AdvisoryKey) -> str:
    """Return what to do about a key of which nothing more is known."""
    if key.value is None:
        return "an extension takes it, since neither a bigint nor a pair of int4 makes this key"
    value = key.value if isinstance(key.value, int) else list(key.value)
    return f"configure a job with a name and key = {value}"


UNNAMED = Rule("unnamed", find)

"""``collision``: two configured names lead to one key."""

from __future__ import annotations

import shlex
from functools import lru_cache
from typing import TYPE_CHECKING

from pglock_inspect.findings.rule import Rule
from pglock_inspect.model import Finding
from pglock_inspect.names.configured import key_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Database, Job


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each key that more than one configured job claims in the same database."""
    databases = tuple(scene.snapshot.databases.values())
    for key, jobs, places in _collisions(scene.jobs, databases):
        names = sorted({job.name for job in jobs})
        where = "" if len(places) == len(databases) else f" in database {' and '.join(places)}"
        yield Finding(
            rule="collision",
            severity="warning",
            summary=f"{' and '.join(names)} have the same key{where}: they exclude each other",
            evidence=f"key {key} ({', '.join(f'{job.name}: {_origin(job)}' for job in jobs)})",
            suggestion="give one of them another key, in its code and its configuration; for its key under "
            f"each scheme: pglock-inspect key {shlex.quote(names[-1])}",
            job=names[0],
            database=places[0] if len(places) == 1 else None,
            key=key,
        )


def _origin(job: Job) -> str:
    return job.scheme if job.key is None else "its key"


@lru_cache(maxsize=16)
def _collisions(
    jobs: tuple[Job, ...], databases: tuple[Database, ...]
) -> tuple[tuple[AdvisoryKey, tuple[Job, ...], tuple[str, ...]], ...]:
    """Return each key that jobs of different names share, with those jobs and the databases where."""
    places: dict[tuple[AdvisoryKey, tuple[Job, ...]], list[str]] = {}
    for database in databases:
        claims: dict[AdvisoryKey, tuple[Job, ...]] = {}
        for job in jobs:
            key = key_in(job, database) if job.database in {None, database.name} else None
            if key:
                claims[key] = (*claims.get(key, ()), job)
        for key, claimants in claims.items():
            if len({job.name for job in claimants}) > 1:
                places.setdefault((key, claimants), []).append(database.name)
    return tuple((key, claimants, tuple(names)) for (key, claimants), names in places.items())


COLLISION = Rule("collision", find)

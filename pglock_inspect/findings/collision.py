"""``collision``: two configured names lead to one key."""

from __future__ import annotations

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
    """Yield a finding for each key that more than one configured job claims in one database."""
    for database in scene.snapshot.databases.values():
        for key, jobs in _claims(scene.jobs, database):
            if len({job.name for job in jobs}) > 1:
                names = " and ".join(sorted({job.name for job in jobs}))
                yield Finding(
                    rule="collision",
                    severity="warning",
                    summary=f"{names} have the same key in database {database.name}: they exclude each other",
                    evidence=f"key {key} ({', '.join(f'{job.name}: {job.scheme}' for job in jobs)})",
                    suggestion="rename one of them, or hash with hashtextextended, which has 64 bits",
                    job=jobs[0].name,
                    database=database.name,
                    key=key,
                )


@lru_cache(maxsize=1024)
def _claims(jobs: tuple[Job, ...], database: Database) -> tuple[tuple[AdvisoryKey, tuple[Job, ...]], ...]:
    claims: dict[AdvisoryKey, list[Job]] = {}
    for job in jobs:
        key = key_in(job, database) if job.database in {None, database.name} else None
        if key:
            claims.setdefault(key, []).append(job)
    return tuple((key, tuple(its_jobs)) for key, its_jobs in claims.items())


COLLISION = Rule("collision", find)

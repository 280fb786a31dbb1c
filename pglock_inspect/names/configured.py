"""Names that a person configured."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from pglock_inspect.errors import UnhashableName
from pglock_inspect.model import Name
from pglock_inspect.schemes import codec_of, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Database, Job, LockRows, Session

_PAIR = 2


class ConfiguredNames:
    """The configured jobs by key. A name is hashed in the encoding of the database where it is looked for."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = tuple(jobs)
        self._by_database = lru_cache(maxsize=1024)(self._index)

    def lookup(
        self,
        keys: frozenset[int],
        rows: LockRows,
        database: Database | None,
        session: Session | None,  # noqa: ARG002 - a configured key needs no corroboration
    ) -> Mapping[int, Name]:
        """Return the names of those of ``keys`` that a job of this database claims."""
        by_key, by_first = self._by_database(database)
        exact = by_key.get(rows.objsubid)
        names = {key: exact[key] for key in keys & exact.keys()} if exact else {}
        if by_first and rows.objsubid == _PAIR:
            for key in keys - names.keys():
                name = by_first.get(key >> 32)
                if name:
                    names[key] = name
        return names

    def _index(self, database: Database | None) -> tuple[dict[int, dict[int, Name]], dict[int, Name]]:
        by_key: dict[int, dict[int, Name]] = {}
        by_first: dict[int, Name] = {}
        for job in self._jobs:
            if job.match is not None or (job.database and database and job.database != database.name):
                continue
            if job.first is not None:
                by_first.setdefault(job.first & 0xFFFFFFFF, _name(job, None))
                continue
            key = key_in(job, database)
            if key:
                same_form = by_key.setdefault(key.objsubid, {})
                same_form.setdefault(
                    key.classid << 32 | key.objid, _name(job, None if job.key else job.scheme)
                )
        return by_key, by_first


def key_in(job: Job, database: Database | None) -> AdvisoryKey | None:
    """Return the one key of a job in a database; None where it has several, or its name none there."""
    if job.match is not None or job.first is not None:
        return None
    if job.key is not None:
        return job.key
    try:
        return key_of(job.name, job.scheme, encoding=codec_of(database.encoding) if database else "utf-8")
    except UnhashableName:
        return None


def _name(job: Job, scheme: str | None) -> Name:
    return Name(job.name, "config", scheme=scheme, job=job, scope=job.scope, long_lived=job.long_lived)

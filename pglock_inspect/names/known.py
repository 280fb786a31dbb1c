"""Names of keys that known software takes."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.names.catalogue import Claim, claims, key_written
from pglock_inspect.names.evidence import Evidence
from pglock_inspect.names.learned import job_of
from pglock_inspect.schemes import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Database, Job, LockRows, Name, Session
    from pglock_inspect.names.traces import Traces

_BIGINT, _PAIR = 1, 2
_FEW = 1_000
"""Up to so many keys of a process get a name each; more of them share one."""

_PLAUSIBLE = re.compile(r"(?=.*[a-z])[a-z0-9][a-z0-9_.:/ -]+", re.IGNORECASE)
"""What people write: of random pairs, 3 % can be decoded and 0.1 % are this."""


class _Index(Struct, frozen=True):
    """Claims by what they claim; ``by_key`` by form and key."""

    by_key: dict[int, dict[int, tuple[Claim, ...]]]
    by_first: dict[int, tuple[Claim, ...]]
    by_class: dict[int, tuple[Claim, ...]]
    ranges: tuple[Claim, ...]
    inverted: tuple[Claim, ...]


class KnownNames:
    """Known software by key.

    ``traces`` are those of one database. ``rows`` are names found there in catalogs and tables, by the
    database's oid and the form of the key. A name that is one of ``jobs``, or fits it, has its limits.
    """

    def __init__(
        self,
        traces: Traces | None = None,
        rows: Mapping[tuple[int, int], Mapping[int, Name]] | None = None,
        jobs: Sequence[Job] = (),
    ) -> None:
        self.traces = traces
        self.rows = rows or {}
        self._jobs = jobs
        self._of_database = lru_cache(maxsize=1024)(self._index)

    def lookup(
        self, keys: frozenset[int], rows: LockRows, database: Database | None, session: Session | None
    ) -> Mapping[int, Name]:
        """Return the names of those of ``keys`` that a product claims with enough evidence."""
        found = self.rows.get((rows.database, rows.objsubid))
        names = {key: found[key] for key in keys & found.keys()} if found else {}
        index = self._of_database(database)
        evidence = Evidence(self._traces_of(database), session)
        exact = index.by_key.get(rows.objsubid, {})
        for key in keys & exact.keys() if len(keys) < len(exact) else keys.intersection(exact):
            name = evidence.name_of(exact[key])
            if name:
                names.setdefault(key, name)
        for claimed, its_keys in _in_namespaces(index, keys - names.keys(), rows.objsubid):
            name = evidence.name_of(claimed)
            if name:
                names.update(_each(name, its_keys))
        if rows.objsubid == _PAIR and len(keys) <= _FEW:
            names.update(_inverted(index.inverted, keys - names.keys(), rows))
        return self._limited(names, database) if self._jobs else names

    def candidates(self, key: AdvisoryKey, database: Database | None = None) -> tuple[Name, ...]:
        """Return whose key it may be, without a look at the evidence; the likeliest first."""
        packed = key.classid << 32 | key.objid
        index = self._of_database(database)
        found = [*index.by_key.get(key.objsubid, {}).get(packed, ())]
        for claimed, _ in _in_namespaces(index, frozenset([packed]), key.objsubid):
            found += claimed
        found.sort(key=lambda claim: ("high", "medium", "low").index(claim.confidence))
        names = [claim.named(maybe=claim.confidence != "high", shown=False) for claim in found]
        return tuple(replace(name, text=_filled(name.text, packed)) for name in names)

    def _limited(self, names: Mapping[int, Name], database: Database | None) -> Mapping[int, Name]:
        limited: dict[int, Name] = {}
        for at, name in {id(name): name for name in names.values()}.items():  # many keys may share one
            job = job_of(name.text, database, self._jobs)
            if job:
                scope, long_lived = job.scope or name.scope, job.long_lived or name.long_lived
                limited[at] = replace(name, job=job, scope=scope, long_lived=long_lived)
        return {key: limited.get(id(name), name) for key, name in names.items()} if limited else names

    def _traces_of(self, database: Database | None) -> Traces | None:
        return self.traces if self.traces and database and self.traces.database == database.oid else None

    def _index(self, database: Database | None) -> _Index:
        index = _Index({}, {}, {}, _having("between"), _having("invert"))
        for claim in claims():
            lock = claim.lock
            if lock.first is not None:
                _add(index.by_first, lock.first & 0xFFFFFFFF, claim)
            elif lock.objsubid and lock.objsubid > _PAIR:
                _add(index.by_class, lock.objsubid, claim)
            for key in self._keys(claim, database):
                _add(index.by_key.setdefault(key.objsubid, {}), key.classid << 32 | key.objid, claim)
        return index

    def _keys(self, claim: Claim, database: Database | None) -> Iterator[AdvisoryKey]:
        """Yield the keys that a claim states, as far as they follow from the database alone."""
        lock = claim.lock
        if lock.key is not None:
            yield key_written(lock.key)
        elif lock.text is not None and lock.texts is None and (database or "{database}" not in lock.text):
            traces = self._traces_of(database)
            seen = traces.relations(lock.schemas_with) if traces and lock.schemas_with else ()
            for schema in {*lock.schemas, *(relation.schema for relation in seen)} or {""}:
                yield claim.hashed(database.name if database else "", schema)


def _having(field: str) -> tuple[Claim, ...]:
    return tuple(claim for claim in claims() if getattr(claim.lock, field) is not None)


def _add(index: dict[int, tuple[Claim, ...]], at: int, claim: Claim) -> None:
    index[at] = (*index.get(at, ()), claim)


def _in_namespaces(
    index: _Index, keys: frozenset[int], objsubid: int
) -> Iterator[tuple[tuple[Claim, ...], Sequence[int]]]:
    """Yield the claims that are not to single keys, each with those of ``keys`` that it is about."""
    if objsubid == _BIGINT:
        for claim in index.ranges:
            low, high = claim.lock.between or (0, 0)
            within = [key for key in keys if low <= key <= high]
            if within:
                yield (claim,), within
    elif objsubid == _PAIR:
        for first in {key >> 32 for key in keys} & index.by_first.keys():
            yield index.by_first[first], [key for key in keys if key >> 32 == first]
    elif objsubid in index.by_class:
        yield index.by_class[objsubid], [*keys]


def _each(name: Name, keys: Sequence[int]) -> Mapping[int, Name]:
    """Return a name for each key: with what the key says in it, unless they are too many."""
    if "{" not in name.text:
        return dict.fromkeys(keys, name)
    if len(keys) <= _FEW:
        return {key: replace(name, text=_filled(name.text, key)) for key in keys}
    return dict.fromkeys(keys, replace(name, text=name.text.partition(" {")[0]))


def _filled(text: str, key: int) -> str:
    second = key & 0xFFFFFFFF
    return text.format(key=key, first=key >> 32, second=second, table_oid=second ^ 0x80000000)


def _inverted(inverted: Sequence[Claim], keys: frozenset[int], rows: LockRows) -> Iterator[tuple[int, Name]]:
    for claim in inverted:
        invert = SCHEMES[claim.lock.invert or ""].invert
        assert invert is not None
        for key in keys:
            text = invert(rows.key(key))
            if text and _PLAUSIBLE.fullmatch(text):
                yield key, replace(claim.named(text, maybe=True, shown=False), scheme=claim.lock.invert)

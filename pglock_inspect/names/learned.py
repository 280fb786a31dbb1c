"""Names that were heard on the server, and count because hashing them gives the very key."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from pglock_inspect.errors import UnhashableName
from pglock_inspect.keys import AdvisoryKey, signed
from pglock_inspect.model import Name
from pglock_inspect.schemes import SCHEMES, codec_of, pair_name
from pglock_inspect.schemes.pairs import halves
from pglock_inspect.schemes.postgres_hash import hashtext, hashtextextended

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.model import Database, Job, LockRows, NameSource, Session
    from pglock_inspect.names.words import Words
    from pglock_inspect.schemes import Scheme

_PAIR = 2
_FEW = 1_000
_HALF = 0xFFFFFFFF
_HAND_PICKED = 1 << 16  # a number below is rather picked by a person than a hash
_MOST_UNDER_EVERY_SCHEME = 500


class LearnedNames(Struct, frozen=True, eq=False):
    """Names by the oid of a database and the form of a key, then by key."""

    names: Mapping[tuple[int, int], Mapping[int, Name]] = {}

    def lookup(
        self,
        keys: frozenset[int],
        rows: LockRows,
        database: Database | None,  # noqa: ARG002 - its oid is in the rows
        session: Session | None,  # noqa: ARG002 - one session's word counts for all
    ) -> Mapping[int, Name]:
        """Return the names of those of ``keys`` that were learned."""
        names = self.names.get((rows.database, rows.objsubid))
        return {key: names[key] for key in keys & names.keys()} if names else {}


class ToldNames:
    """The names that ``names_query`` returns, under ``scheme``, and under every other while they are few."""

    def __init__(self, texts: Sequence[str] = (), jobs: Sequence[Job] = (), scheme: str = "hashtext") -> None:
        self._texts, self._jobs = texts, jobs
        self._schemes = schemes_by_likelihood(scheme)
        if len(texts) > _MOST_UNDER_EVERY_SCHEME:
            self._schemes = self._schemes[:1]
        self._by_database = lru_cache(maxsize=64)(self._index)

    def lookup(
        self,
        keys: frozenset[int],
        rows: LockRows,
        database: Database | None,
        session: Session | None,  # noqa: ARG002 - a name that was asked for needs no corroboration
    ) -> Mapping[int, Name]:
        """Return the names of those of ``keys`` that a text makes."""
        if not self._texts:
            return {}
        index = self._by_database(database).get(rows.objsubid, {})
        return {key: name_of(*index[key], "names_query", database, self._jobs) for key in keys & index.keys()}

    def _index(self, database: Database | None) -> dict[int, dict[int, tuple[str, str]]]:
        codec = codec_of(database.encoding) if database else "utf-8"
        index: dict[int, dict[int, tuple[str, str]]] = {}
        for scheme in self._schemes:
            for text, key in _hashed(self._texts, scheme, codec):
                index.setdefault(key.objsubid, {}).setdefault(_packed(key), (text, scheme.name))
        return index


def name_of(
    text: str, scheme: str, source: NameSource, database: Database | None, jobs: Iterable[Job]
) -> Name:
    """Return the name of a learned text: with the limits of the job that it is, or that it matches."""
    job = job_of(text, database, jobs)
    if job is None:
        return Name(text, source, scheme=scheme)
    return Name(text, source, scheme=scheme, job=job, scope=job.scope, long_lived=job.long_lived)


def job_of(text: str, database: Database | None, jobs: Iterable[Job]) -> Job | None:
    """Return the first job that a name found in a database is, or that it matches."""
    for job in jobs:
        here = job.database is None or database is None or job.database == database.name
        if here and _means(job, text):
            return job
    return None


def _means(job: Job, text: str) -> bool:
    """Whether a job's pattern fits a text or, for a pair, its half; else whether it is the job's own name.

    A job without a key may lock under another scheme than its configuration expects.
    """
    if job.match is None:
        return job.name == text and job.key is None and job.first is None
    return any(fnmatchcase(part, job.match) for part in (text, *_halves(text)))


def _halves(text: str) -> Iterator[str]:
    with suppress(ValueError):
        for half in halves(text.encode("utf-8", "surrogatepass")):
            if isinstance(half, bytes):
                yield half.decode("utf-8", "surrogatepass")


@cache
def schemes_by_likelihood(first: str) -> tuple[Scheme, ...]:
    """Return all schemes, one of them first."""
    return tuple(sorted(SCHEMES.values(), key=lambda scheme: scheme.name != first))


def recognise(
    words: Words, wanted: frozenset[int], objsubid: int, codec: str, first: str
) -> dict[int, tuple[str, str]]:
    """Return the text and the scheme that make keys of ``wanted``, as far as the words do."""
    found: dict[int, tuple[str, str]] = {}
    if objsubid != _PAIR and len(wanted) <= _FEW:
        wanted = frozenset(key for key in wanted if abs(signed(key, 64)) >= _HAND_PICKED)
    if not words.texts or not wanted:
        return found
    sizes = frozenset(map(_is_small, wanted)) if len(wanted) <= _FEW else frozenset((True, False))
    for schemes in _fitting(objsubid == _PAIR, sizes, first):
        for text in words.texts:
            keys = _keys_of(text, schemes, codec)
            found = {**{key: (text, keys[key]) for key in keys.keys() & wanted}, **found}
        if len(found) == len(wanted):
            return found
    if objsubid == _PAIR:
        pairs = _pairs(words, wanted - found.keys(), codec)
        found.update(pairs)
    elif words.seeds:
        found = {**dict(_seeded(words, wanted, codec)), **found}
    return found


@lru_cache(maxsize=16_384)  # what sessions say is much the same from session to session and from poll to poll
def _keys_of(text: str, schemes: tuple[Scheme, ...], codec: str) -> Mapping[int, str]:
    """Return the keys that schemes make of a text, with the first scheme that makes them."""
    keys: dict[int, str] = {}
    for scheme in schemes:
        for _, key in _hashed((text,), scheme, codec):
            keys.setdefault(_packed(key), scheme.name)
    return keys


@cache
def _fitting(pair: bool, sizes: frozenset[bool], first: str) -> tuple[tuple[Scheme, ...], ...]:  # noqa: FBT001
    """Return the schemes that can have made keys of these sizes, the likeliest apart from the others.

    An integer as text is not a name for itself.
    """
    fitting = tuple(
        scheme
        for scheme in schemes_by_likelihood(first)
        if (scheme.form == "pair") == pair
        and scheme.name != "int"
        and (pair or _makes_small(scheme) in sizes)
    )
    return fitting[:1], fitting[1:]


def _is_small(packed: int) -> bool:
    """Whether a bigint is an int4, or one read as unsigned."""
    return packed >> 32 in (0, _HALF)


@cache
def _makes_small(scheme: Scheme) -> bool:
    return _is_small(_packed(scheme.key(scheme.example)))


def _hashed(texts: Iterable[str], scheme: Scheme, codec: str) -> Iterator[tuple[str, AdvisoryKey]]:
    """Yield the keys of texts, but no small number of a text that is another: Java hashes ``"3"`` to 51."""
    for text in texts:
        with suppress(UnhashableName):
            key = scheme.key(text, encoding=codec)
            if scheme.name == "int" or not isinstance(key.value, int) or abs(key.value) >= _HAND_PICKED:
                yield text, key


def _pairs(words: Words, wanted: frozenset[int], codec: str) -> Iterator[tuple[int, tuple[str, str]]]:
    """Yield the pairs of which ``hashtext`` makes at least one half; the other stands for itself."""
    if len(wanted) > _FEW:
        return
    by_hash = {hashtext(data): text for text, data in _encoded(words.texts, codec)}
    for key in wanted:
        both = signed(key >> 32, 32), signed(key & _HALF, 32)
        if by_hash.keys() & set(both):
            first, second = (by_hash.get(half, half) for half in both)
            yield key, (pair_name(first, second), "hashtext-pair")


def _seeded(words: Words, wanted: frozenset[int], codec: str) -> Iterator[tuple[int, tuple[str, str]]]:
    for text, data in _encoded(words.texts, codec):
        for seed in words.seeds:
            key = hashtextextended(data, seed) & 0xFFFFFFFFFFFFFFFF
            if key in wanted:
                yield key, (text, "hashtextextended")


def _encoded(texts: Iterable[str], codec: str) -> Iterator[tuple[str, bytes]]:
    for text in texts:
        try:
            yield text, text.encode(codec)
        except UnicodeEncodeError:
            continue


def _packed(key: AdvisoryKey) -> int:
    return key.classid << 32 | key.objid

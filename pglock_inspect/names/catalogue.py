"""The known software: what ``known.toml`` says, with the keys that follow from it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, convert

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Name, Scope
from pglock_inspect.schemes import scheme_named

if TYPE_CHECKING:
    from collections.abc import Iterator

Confidence = Literal["high", "medium", "low"]


class KnownLock(Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of lock of a product; the data file explains each field."""

    name: str = ""
    key: int | tuple[int, int] | str | None = None
    first: int | None = None
    between: tuple[int, int] | None = None
    objsubid: int | None = None
    text: str | None = None
    times: int = 1
    plus: int = 0
    bits: int | None = None
    absolute: bool = False
    schemas: tuple[str, ...] = ()
    schemas_with: str | None = None
    table: str | None = None
    rows: str | None = None
    texts: str | None = None
    catalog: bool = False
    invert: str | None = None
    scheme: str | None = None
    scope: Scope | None = None
    long_lived: bool | None = None
    confidence: Confidence | None = None


class Example(Struct, frozen=True, forbid_unknown_fields=True):
    """A key that a product takes: in a database, of a name or row, or where a table has an oid."""

    key: int | tuple[int, int] | str
    name: str | None = None
    database: str | None = None
    schema: str | None = None
    row: str | None = None
    oid: int | None = None


class Software(Struct, frozen=True, forbid_unknown_fields=True):
    """A product, and its locks."""

    id: str
    product: str
    purpose: str
    examples: tuple[Example, ...]
    locks: tuple[KnownLock, ...] = ()
    scope: Scope | None = None
    long_lived: bool = False
    confidence: Confidence = "high"
    evidence: tuple[str | tuple[str, ...], ...] = ()
    scheme: str | None = None
    never: str | None = None
    note: str | None = None


class Claim(Struct, frozen=True, eq=False):
    """What a product says of keys: that they are this lock of its own."""

    software: Software
    lock: KnownLock

    @property
    def confidence(self) -> Confidence:
        """What a key alone says."""
        return self.lock.confidence or self.software.confidence

    @property
    def long_lived(self) -> bool:
        """Whether the lock is held for life by design."""
        return self.software.long_lived if self.lock.long_lived is None else self.lock.long_lived

    @property
    def objsubid(self) -> int:
        """The form of the keys that `rows` or `texts` finds names for."""
        return self.lock.objsubid or (1 if self.lock.first is None else 2)

    @property
    def finds_names(self) -> bool:
        """Whether a database has names for such locks."""
        return bool(self.lock.rows or self.lock.texts)

    def concerns(self, key: int) -> bool:
        """Whether a key (packed, of the right form) may be such a lock."""
        return self.lock.first is None or key >> 32 == self.lock.first & 0xFFFFFFFF

    def named(self, text: str | None = None, *, maybe: bool = False, shown: bool = True) -> Name:
        """Return the name, with what is only said of a lock that surely is the product's.

        ``shown``: more than the key speaks for it.
        """
        return Name(
            text or self.lock.name,
            "known",
            scheme=self.lock.text and (self.lock.scheme or self.software.scheme),
            product=self.software.product,
            scope=None if maybe else self.lock.scope or self.software.scope,
            long_lived=self.long_lived and (shown or not maybe),
            maybe=maybe,
        )

    def hashed(self, database: str = "", schema: str = "", row: str = "") -> AdvisoryKey:
        """Return the key of the lock's text."""
        lock = self.lock
        assert lock.text is not None
        text = lock.text.format(database=database, schema=schema, row=row)
        value = scheme_named(lock.scheme or self.software.scheme or "").key(text).value
        assert isinstance(value, int)
        value = lock.plus + lock.times * (abs(value) if lock.absolute else value)
        return AdvisoryKey.from_bigint(value % (1 << lock.bits) if lock.bits else value)


@cache
def catalogue() -> tuple[Software, ...]:
    """Return all known software, read when a key is first met that has no other name."""
    import tomllib  # noqa: PLC0415  (as above)

    data = files(__package__).joinpath("known.toml").read_text("utf-8")
    return convert(tomllib.loads(data)["software"], tuple[Software, ...])


@cache
def claims() -> tuple[Claim, ...]:
    """Return all that is claimed, in the order of the file."""
    return tuple(Claim(software, lock) for software in catalogue() for lock in software.locks)


def key_written(written: int | tuple[int, int] | str) -> AdvisoryKey:
    """Return the key that the file writes."""
    return AdvisoryKey.parse(written) if isinstance(written, str) else AdvisoryKey.from_value(written)


def traces() -> Iterator[str]:
    """Yield what tells that a product is there, and the tables that locks are named by."""
    for software in catalogue():
        for item in software.evidence:
            yield from (item,) if isinstance(item, str) else item
    for claim in claims():
        for table in (claim.lock.table, claim.lock.schemas_with):
            if table:
                yield f"table {table}"

"""The name book: sources of names, asked in order of how much their word counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.model import Database, LockRows, Name, Session


class Names(Protocol):
    """One source of names."""

    def lookup(
        self, keys: frozenset[int], rows: LockRows, database: Database | None, session: Session | None
    ) -> Mapping[int, Name]:
        """Return the names of those of ``keys`` (packed, of ``rows``) that this source knows."""
        ...


class NameBook:
    """Names for keys. Immutable: a book that has learned something is another book."""

    def __init__(self, *sources: Names) -> None:
        self._sources = sources

    def resolve(
        self, keys: frozenset[int], rows: LockRows, database: Database | None, session: Session | None
    ) -> Mapping[int, Name]:
        """Return the names of those of ``keys`` (packed, of ``rows``) that a source knows; the first wins.

        What a person configured stands as it is; what was only heard of a key may be completed by a product
        that surely takes it.
        """
        names: dict[int, Name] = {}
        for source in self._sources:
            found = source.lookup(keys, rows, database, session)
            if found:
                completed = {key: _completed(names[key], found[key]) for key in found.keys() & names.keys()}
                names = {**found, **names, **completed}
                keys -= {key for key, name in found.items() if name.source == "config"}
        return names


def _completed(name: Name, other: Name) -> Name:
    if name.product or other.maybe or not other.product:
        return name
    if name.job:
        return replace(name, product=other.product)
    return replace(name, product=other.product, scope=other.scope, long_lived=other.long_lived)

"""The name book: sources of names, asked in order of how much their word counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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
        """Return the names of those of ``keys`` (packed, of ``rows``) that a source knows; the first wins."""
        names: dict[int, Name] = {}
        for source in self._sources:
            found = source.lookup(keys, rows, database, session)
            if found:
                names = {**found, **names}
                keys -= found.keys()
        return names

"""The keys that schemes make of names, to look up or to paste."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present.cells import pad, width
from pglock_inspect.present.document import key_fields
from pglock_inspect.present.json import dump
from pglock_inspect.present.text import printable, well_formed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.keys import AdvisoryKey

_HEADING = ("SCHEME", "KEY", "CLASSID", "OBJID", "OBJSUBID", "TAKE IT")


class NamedKey(NamedTuple):
    """``arguments`` is what to write in ``pg_try_advisory_lock(…)``."""

    name: str
    scheme: str
    key: AdvisoryKey
    arguments: str

    @property
    def sql(self) -> str:
        """The statement that takes the lock where it is free."""
        return f"SELECT pg_try_advisory_lock({self.arguments})"


def as_table(keys: Sequence[NamedKey]) -> str:
    """Return the keys below their names."""
    return "\n\n".join(
        "\n".join(_block(name, [*of_name])) for name, of_name in groupby(keys, key=lambda key: key.name)
    )


def as_json(keys: Sequence[NamedKey]) -> str:
    """Return the keys as an array of objects."""
    return dump(
        [
            {
                "name": well_formed(key.name),
                "scheme": key.scheme,
                **key_fields(key.key),
                "sql": well_formed(key.sql),
            }
            for key in keys
        ],
        indent=2,
    )


def _block(name: str, keys: Sequence[NamedKey]) -> Iterator[str]:
    rows = [(key.scheme, str(key.key), *map(str, key.key), printable(key.sql)) for key in keys]
    widths = [max(map(width, column)) for column in zip(_HEADING, *rows, strict=True)]
    yield printable(name)
    for scheme, *numbers, sql in (_HEADING, *rows):
        cells = [pad(text, cells, right=True) for text, cells in zip(numbers, widths[1:], strict=False)]
        yield "  ".join(("", pad(scheme, widths[0]), *cells, sql))

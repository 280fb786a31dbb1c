"""A poll as a line of JSON: whole, or as what changed since the poll before it.

What changed of a report are the fields that are not as before, and the rows of a kind if any is new, gone or
elsewhere: then ``[start, count]`` stands for so many of those before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Raw
from msgspec.json import decode, encode

from pglock_inspect.recording.parts import ROWS, Parts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

_NOTHING = Parts({}, {})


def line_of(reports: Sequence[Parts], before: Sequence[Parts] | None = None) -> bytes:
    """Return the line of a poll: what changed since ``before``, the poll before it, or all without one."""
    if before is None:
        return encode({"whole": [_changes(parts, _NOTHING) for parts in reports]})
    return encode({"changes": [_changes(*pair) for pair in zip(reports, before, strict=True)]})


def _changes(parts: Parts, before: Parts) -> dict[str, Raw | list[Raw | tuple[int, int]]]:
    changes: dict[str, Raw | list[Raw | tuple[int, int]]] = {
        name: Raw(value) for name, value in parts.fields.items() if before.fields.get(name) != value
    }
    for name, rows in parts.rows.items():
        known = before.rows.get(name)
        if rows != known:
            changes[name] = [*_runs(rows, known or ())]
    return changes


def _runs(rows: Iterable[bytes], before: Sequence[bytes]) -> Iterator[Raw | tuple[int, int]]:
    places = {row: place for place, row in enumerate(before)}
    start = count = 0
    for row in rows:
        place = places.get(row)
        if count and place == start + count:
            count += 1
            continue
        if count:
            yield start, count
        start, count = (0, 0) if place is None else (place, 1)
        if place is None:
            yield Raw(row)
    if count:
        yield start, count


def read_line(line: bytes, before: Sequence[Parts]) -> list[Parts]:
    """Return the reports of a poll in parts; ``before`` is the poll before it, which a whole one needs not.

    Raises ValueError for a line that is none, or that does not follow ``before``.
    """
    read = decode(line, type=dict[str, list[dict[str, Raw]]])
    if "whole" in read:
        return [_changed(changes, _NOTHING) for changes in read["whole"]]
    return [_changed(*pair) for pair in zip(read["changes"], before, strict=True)]


def _changed(changes: Mapping[str, Raw], before: Parts) -> Parts:
    fields, rows = {**before.fields}, {**before.rows}
    for name, value in changes.items():
        if name in ROWS:
            rows[name] = [*_restored(decode(value, type=list[Raw]), before.rows.get(name, ()))]
        else:
            fields[name] = bytes(value)
    return Parts(fields, rows)


def _restored(rows: Iterable[Raw], before: Sequence[bytes]) -> Iterator[bytes]:
    for row in rows:
        written = bytes(row)
        if written.startswith(b"["):
            start, count = decode(written, type=tuple[int, int])
            yield from before[start : start + count]
        else:
            yield written

"""The rows of a view as a file."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from pglock_inspect.files import replace_file
from pglock_inspect.model import to_datetime
from pglock_inspect.present.csv import inert
from pglock_inspect.present.json import dump
from pglock_inspect.present.text import well_formed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pglock_inspect.top.view import Row, View

    _Records = Sequence[Mapping[str, Any]]


def export(view: View, rows: Sequence[Row], format_: str, directory: Path) -> Path:
    """Write the rows to a new file for its owner's eyes, and return its path. Raises OSError."""
    records = [_record(view, row) for row in rows]
    path = _free(directory, f"pglock-{view.name}-{_stamp(rows)}", format_.lower())
    replace_file(path, FORMATS[format_](records).encode())
    return path


def _record(view: View, row: Row) -> Mapping[str, Any]:
    report = row.sight.report
    return {"target": report.target, "taken_at": to_datetime(report.taken_at).isoformat(), **view.record(row)}


def _stamp(rows: Sequence[Row]) -> str:
    return f"{to_datetime(rows[0].sight.report.taken_at):%Y%m%dT%H%M%SZ}" if rows else "empty"


def _free(directory: Path, name: str, suffix: str) -> Path:
    """Return a path that nothing is at."""
    path, number = directory / f"{name}.{suffix}", 1
    while path.exists():
        number += 1
        path = directory / f"{name}-{number}.{suffix}"
    return path


def _json(records: _Records) -> str:
    safe = [
        {name: well_formed(value) if isinstance(value, str) else value for name, value in record.items()}
        for record in records
    ]
    return dump(safe, indent=2) + "\n"


def _csv(records: _Records) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if records:
        writer.writerow(records[0])
    for record in records:
        writer.writerow([inert(value) if isinstance(value, str) else value for value in record.values()])
    return text.getvalue()


FORMATS: dict[str, Callable[[_Records], str]] = {"JSON": _json, "CSV": _csv}

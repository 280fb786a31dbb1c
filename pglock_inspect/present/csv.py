"""CSV for a spreadsheet: one lock per row, and no cell that a spreadsheet would run as a formula."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

from msgspec.json import encode

from pglock_inspect.model import to_datetime
from pglock_inspect.present.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pglock_inspect.model import Instant, Lock, Report
    from pglock_inspect.present.paper import Paper

    Cell = str | int | float | None

_FORMULA = tuple("=+-@＝＋－＠")  # noqa: RUF001 - spreadsheets of East Asia take the wide ones too

_LIMIT = 10_000  # characters of a cell: escaped, still less than what readers of CSV refuse


def once(reports: Sequence[Report], paper: Paper) -> str:
    """Return one poll of all targets below a heading."""
    return "\n".join(stream([reports], paper))


def stream(polls: Iterable[Sequence[Report]], _: Paper) -> Iterator[str]:
    """Yield the heading, then the rows of each poll that has some."""
    yield ",".join(("target", "taken_at", *_COLUMNS))
    for reports in polls:
        rows = io.StringIO()
        writer = csv.writer(rows, lineterminator="\n")
        for report in reports:
            origin = (inert(report.target), _time(report.taken_at))
            writer.writerows((*origin, *(cell(lock) for cell in _COLUMNS.values())) for lock in report.locks)
        if rows.tell():
            yield rows.getvalue().rstrip("\n")


def inert(text: str | None) -> str | None:
    """Return text for a cell that no spreadsheet runs."""
    if text is None:
        return None
    shown = printable(text, _LIMIT)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown


def _time(instant: Instant | None) -> str | None:
    return None if instant is None else encode(to_datetime(instant)).decode().strip('"')


def _of(*path: str) -> Callable[[Lock], Cell]:
    """Return what reads an attribute of an attribute, None where one is missing on the way."""

    def cell(lock: Lock) -> Cell:
        value: Any = lock
        for attribute in path:
            value = getattr(value, attribute, None)
        return inert(value) if isinstance(value, str) else value

    return cell


def _since(attribute: str) -> Callable[[Lock], Cell]:
    return lambda lock: _time(getattr(lock.session, attribute, None))


_COLUMNS: dict[str, Callable[[Lock], Cell]] = {
    "job": _of("name", "text"),
    "database": _of("database"),
    "classid": _of("key", "classid"),
    "objid": _of("key", "objid"),
    "objsubid": _of("key", "objsubid"),
    "form": _of("key", "form"),
    "value": lambda lock: None if lock.key.value is None else str(lock.key),
    "name_source": _of("name", "source"),
    "scheme": _of("name", "scheme"),
    "product": _of("name", "product"),
    "mode": _of("mode"),
    "granted": lambda lock: "true" if lock.granted else "false",
    "scope": _of("scope"),
    "held_seconds": _of("held", "seconds"),
    "at_least": _of("held", "at_least"),
    "at_most": _of("held", "at_most"),
    "evidence": _of("held", "evidence"),
    "waited_seconds": _of("waited_seconds"),
    "max_held": _of("max_held"),
    "severity": _of("severity"),
    "findings": lambda lock: " ".join(lock.findings),
    "waiters": _of("waiters"),
    "blocked_by": lambda lock: inert(" ".join(map(str, lock.blocked_by))),
    "pid": _of("pid"),
    "prepared_gid": _of("prepared", "gid"),
    "prepared_owner": _of("prepared", "owner"),
    "user": _of("session", "user"),
    "application_name": _of("session", "application_name"),
    "client": _of("session", "client"),
    "state": _of("session", "state"),
    "backend_start": _since("backend_start"),
    "xact_start": _since("xact_start"),
    "state_change": _since("state_change"),
    "query": _of("session", "query"),
}

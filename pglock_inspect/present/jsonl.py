"""JSON Lines: one lock per line, with its target and time; under ``--watch`` one report per line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.model import to_datetime
from pglock_inspect.present.document import lock_documents
from pglock_inspect.present.json import dump, stream
from pglock_inspect.present.text import well_formed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.model import Report
    from pglock_inspect.present.paper import Paper

__all__ = ["once", "stream"]


def once(reports: Sequence[Report], _: Paper) -> str:
    """Return the locks of one poll; nothing where there is none."""
    return "\n".join(_lines(reports))


def _lines(reports: Sequence[Report]) -> Iterator[str]:
    for report in reports:
        origin = {"target": well_formed(report.target), "taken_at": to_datetime(report.taken_at)}
        for lock in lock_documents(report.locks):
            yield dump(origin | lock)

"""Which columns the table has room for, and how wide each one is.

Widths follow from the terminal's width alone, never from what is in the rows: nothing jumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present import columns

if TYPE_CHECKING:
    from pglock_inspect.present.columns import Column

_ROOMY = 79

_FROM_LEFT = (
    *(columns.MARK, columns.JOB, columns.KEY, columns.STATE, columns.FOR, columns.MAX, columns.WAITERS),
    *(columns.PID, columns.USER, columns.APPLICATION, columns.CLIENT, columns.DATABASE, columns.SESSION),
    columns.QUERY,
)
_ALWAYS = (columns.JOB, columns.STATE, columns.FOR)
_IF_THERE_IS_ROOM = (
    *(columns.WAITERS, columns.PID, columns.MAX, columns.APPLICATION, columns.KEY),
    *(columns.USER, columns.CLIENT, columns.QUERY, columns.SESSION, columns.DATABASE),
)
_LEAST = {columns.KEY: 12, columns.QUERY: 16}
_WIDENED = (
    *((columns.JOB, 28), (columns.QUERY, 24), (columns.KEY, 20), (columns.QUERY, 40), (columns.JOB, 40)),
    *((columns.APPLICATION, 28), (columns.MAX, 24), (columns.USER, 16), (columns.CLIENT, 26)),
    *((columns.KEY, 23), (columns.DATABASE, 16), (columns.QUERY, columns.QUERY.most)),
)


class Place(NamedTuple):
    """Where a column stands: so many blanks behind the one before it, and so wide."""

    blanks: int
    column: Column
    width: int


def lay_out(cells: int) -> list[Place]:
    """Return the columns for a table of ``cells`` cells, from left to right."""
    margin, gap = (0, 1) if cells < _ROOMY else (1, 2)
    widths = {column: column.width for column in (columns.MARK, *_ALWAYS)}

    def room() -> int:
        return cells - sum(widths.values()) - margin - 1 - gap * (len(widths) - 2)

    widths[columns.JOB] += max(min(room(), 0), 1 - columns.JOB.width)
    for column in _IF_THERE_IS_ROOM:
        width = _LEAST.get(column, column.width)
        if room() < gap + width:
            break
        widths[column] = width
    for column, most in _WIDENED:
        if column in widths:
            widths[column] += max(0, min(room(), most - widths[column]))
    blanks = {columns.MARK: margin, columns.JOB: 1}
    return [
        Place(blanks.get(column, gap), column, widths[column]) for column in _FROM_LEFT if column in widths
    ]

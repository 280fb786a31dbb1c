"""Which columns a table has room for, and how wide each one is.

Widths follow from the terminal's width alone, never from what is in the rows: nothing jumps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present.columns import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Span
    from pglock_inspect.top.view import Row

_ROOMY = 79


def _target(row: Row, _width: int, look: Look) -> list[Span]:
    return [(look.text(row.sight.report.target), "text")]


TARGET = Column("TARGET", 10, 20, _target)
"""The one column that gets the row itself."""


class Plan(NamedTuple):
    """The columns of a table, and in which order they get room.

    ``mark`` is one cell wide and stands before ``main``, which gives room where there is too little;
    ``always`` are there too. ``if_room`` come as far as there is some, narrowed to ``least`` where that
    says something, and then grow as ``widened`` says, step by step.
    """

    mark: Column
    main: Column
    from_left: tuple[Column, ...]
    always: tuple[Column, ...] = ()
    if_room: tuple[Column, ...] = ()
    widened: tuple[tuple[Column, int], ...] = ()
    least: Mapping[Column, int] = {}


def with_target(plan: Plan) -> Plan:
    """Return a plan that says of each row which server it is of."""
    main, *others = plan.from_left
    return plan._replace(
        from_left=(main, TARGET, *others),
        always=(TARGET, *plan.always),
        widened=(*plan.widened[:1], (TARGET, 16), *plan.widened[1:]),
    )


class Place(NamedTuple):
    """Where a column stands: so many blanks behind the one before it, and so wide."""

    blanks: int
    column: Column
    width: int


def column_at(places: Iterable[Place], cell: int) -> Column | None:
    """Return the column that a cell belongs to; so do the blanks before the column."""
    end = 0
    for blanks, column, width in places:
        end += blanks + width
        if cell < end:
            return column
    return None


def lay_out(plan: Plan, cells: int) -> list[Place]:
    """Return the columns for a table of ``cells`` cells, from left to right."""
    margin, gap = (0, 1) if cells < _ROOMY else (1, 2)
    widths = {column: column.width for column in (plan.mark, plan.main, *plan.always)}

    def room() -> int:
        return cells - sum(widths.values()) - margin - 1 - gap * (len(widths) - 2)

    widths[plan.main] += max(min(room(), 0), 1 - plan.main.width)
    for column in plan.if_room:
        width = plan.least.get(column, column.width)
        if room() < gap + width:
            break
        widths[column] = width
    for column, most in plan.widened:
        if column in widths:
            widths[column] += max(0, min(room(), most - widths[column]))
    blanks = {plan.mark: margin, plan.main: 1}
    return [
        Place(blanks.get(column, gap), column, widths[column])
        for column in (plan.mark, *plan.from_left)
        if column in widths
    ]

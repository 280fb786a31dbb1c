"""Which view is open, and how a person wants it: sorted, filtered, of one server or of all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.top import views
from pglock_inspect.top.layout import with_target
from pglock_inspect.top.view import matching, rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pglock_inspect.present.columns import Column
    from pglock_inspect.top.layout import Plan
    from pglock_inspect.top.view import Order, Row, Sight, View


class Showing:
    """The person's choices. Each view keeps its own order; ``typed`` is the filter of all of them.

    ``source`` is the number of the only server to show, None for all; there may be ``several``. ``unread`` is
    what to say while none of them was read.
    """

    def __init__(self, *, several: bool = False) -> None:
        self.source: int | None = None
        self._several = several
        self.unread = "Waiting for the server's first answer."
        self.view: View = views.load("locks")
        self.typed = ""
        self._orders: dict[str, Order] = {}
        self._backwards: set[str] = set()

    @property
    def plan(self) -> Plan:
        """The columns of the open view, with the target where rows are of several."""
        plan = self.view.plan
        return with_target(plan) if self._several and self.source is None else plan

    @property
    def order(self) -> Order:
        """What the open view is sorted by."""
        return self._orders.get(self.view.name, self.view.orders[0])

    @property
    def backwards(self) -> bool:
        """Whether the last comes first."""
        return self.view.name in self._backwards

    @property
    def sorted_by(self) -> str:
        """The order in words; nothing where it is the usual one."""
        told = "" if self.order is self.view.orders[0] else self.order.name
        return f"{told or self.order.name}, reversed" if self.backwards else told

    def open(self, name: str) -> None:
        """Open another view."""
        self.view = views.load(name)

    def sort(self, order: Order) -> None:
        """Sort the open view by something else."""
        self._orders[self.view.name] = order
        self._backwards.discard(self.view.name)

    def sort_by(self, column: Column | None) -> None:
        """Sort the open view by a column; turn it upside down if that is its order."""
        orders = [order for order in self.view.orders if column and order.column == column]
        if self.order in orders:
            self.reverse()
        elif orders:
            self.sort(orders[0])

    def reverse(self) -> None:
        """Turn the open view upside down."""
        self._backwards ^= {self.view.name}

    def step(self, steps: int, visible: Collection[Column]) -> None:
        """Sort by the next column to the right, or to the left, of those that are visible."""
        orders = [order for order in self.view.orders if order.column is None or order.column in visible]
        at = orders.index(self.order) if self.order in orders else 0
        self.sort(orders[(at + steps) % len(orders)])

    def rows(self, sights: Sequence[Sight]) -> tuple[Sequence[Row], str]:
        """Return the rows to show, and what to say where there are none."""
        rows = rows_of(self.view, sights, self.order, backwards=self.backwards)
        if rows:
            nothing = f"None of {len(rows)} rows fits the filter. Esc clears it."
        else:
            nothing = self.view.nothing if sights else self.unread
        return matching(self.view, rows, self.typed), nothing

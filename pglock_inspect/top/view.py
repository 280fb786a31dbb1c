"""What a view is: rows of one kind, made of a report, and all that can be done with one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from pglock_inspect.top.filter import terms_of
from pglock_inspect.top.rows import Locks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from pglock_inspect.model import Lock, Report
    from pglock_inspect.present.columns import Column
    from pglock_inspect.present.look import Look
    from pglock_inspect.top.filter import Facts, Term
    from pglock_inspect.top.layout import Plan
    from pglock_inspect.top.past import Hold
    from pglock_inspect.top.sections import Section


class Sight(NamedTuple):
    """What there is to see of one server: a report, its locks worst first, and what polls saw before it."""

    report: Report
    locks: Locks = Locks()
    past: tuple[Hold, ...] = ()


class Row(NamedTuple):
    """An item of a view, and what it was made of."""

    sight: Sight
    item: Any


class Rows(Sequence[Row]):
    """The rows of the items of one server, each made when it is looked at."""

    def __init__(self, sight: Sight, items: Sequence[Any], *, backwards: bool = False) -> None:
        self._sight, self._items = sight, items
        self._places = range(len(items))[:: -1 if backwards else 1]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """Return a row, or some."""
        places = self._places[index]
        if isinstance(places, range):
            return [Row(self._sight, self._items[place]) for place in places]
        return Row(self._sight, self._items[places])

    def find(self, view: View, wanted: Hashable) -> int | None:
        """Return where the row of an item's identity stands; None where it does not."""
        if isinstance(self._items, Locks):
            place = self._items.find(wanted)  # type: ignore[arg-type]
        else:
            places = (at for at, item in enumerate(self._items) if view.identity(item) == wanted)
            place = next(places, None)
        return None if place is None else self._places.index(place)


class Order(NamedTuple):
    """A way to sort; ``column`` is the one that it goes by. The smallest ``key`` comes first."""

    name: str
    key: Callable[[Any], Any] | None = None
    column: Column | None = None


class View(NamedTuple):
    """Rows of one kind. The first of ``orders`` is the one that ``items`` come in.

    ``lock_of`` is the lock that a row is about, if it is about one; ``title`` and ``describe`` are its
    details; ``record`` is what is exported of it, in plain values.
    """

    name: str
    nothing: str
    plan: Plan
    orders: tuple[Order, ...]
    items: Callable[[Sight], Sequence[Any]]
    identity: Callable[[Any], Hashable]
    facts: Callable[[Any], Facts]
    lock_of: Callable[[Row], Lock | None]
    title: Callable[[Any], str]
    describe: Callable[[Row, Look], list[Section]]
    record: Callable[[Row], Mapping[str, Any]]


def rows_of(view: View, sights: Sequence[Sight], order: Order, *, backwards: bool = False) -> Sequence[Row]:
    """Return the rows of a view, sorted."""
    key = order.key
    if len(sights) == 1 and (key is None or order is view.orders[0]):
        return Rows(sights[0], view.items(sights[0]), backwards=backwards)
    rows = [Row(sight, item) for sight in sights for item in view.items(sight)]
    if key is not None:
        rows.sort(key=lambda row: key(row.item))
    return rows[::-1] if backwards else rows


def matching(view: View, rows: Sequence[Row], typed: str) -> Sequence[Row]:
    """Return the rows that fit a filter as it was typed."""
    terms = terms_of(typed)
    if not terms:
        return rows
    return [row for row in rows if _fits(view, row, terms)]


def index_of(view: View, wanted: tuple[str, Hashable], rows: Sequence[Row]) -> int | None:
    """Return where the row of an identity stands; None where it does not."""
    if isinstance(rows, Rows):
        return rows.find(view, wanted[1]) if rows and rows[0].sight.report.target == wanted[0] else None
    for index, row in enumerate(rows):
        if identity_of(view, row) == wanted:
            return index
    return None


def identity_of(view: View, row: Row) -> tuple[str, Hashable]:
    """Return what to find a row by in the next report."""
    return row.sight.report.target, view.identity(row.item)


def _fits(view: View, row: Row, terms: Sequence[Term]) -> bool:
    facts = view.facts(row.item)._replace(target=row.sight.report.target)
    return all(term.fits(facts) for term in terms)

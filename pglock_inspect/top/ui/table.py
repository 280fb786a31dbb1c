"""The table of a view: draws only the rows in sight, so that ten thousand cost what fifty do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.geometry import Size
from textual.scroll_view import ScrollView

from pglock_inspect.present.spans import fit
from pglock_inspect.top.keys import MOVE
from pglock_inspect.top.layout import TARGET, column_at, lay_out
from pglock_inspect.top.ui.painted import Painted
from pglock_inspect.top.view import identity_of, index_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Sequence

    from textual import events
    from textual.strip import Strip

    from pglock_inspect.present.columns import Column
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Meaning, Span
    from pglock_inspect.top.layout import Place
    from pglock_inspect.top.showing import Showing
    from pglock_inspect.top.view import Row


class Table(Painted, ScrollView, can_focus=True):
    """Rows, one of them selected; the selection stays on what its row is about while rows move.

    ``selected_another`` is called when the person selects another row. It is no message, for which a picture
    would not wait: what it paints is painted with the row.
    """

    BINDINGS = [Binding(key.keys, key.action, key.does, show=False) for key in MOVE]  # noqa: RUF012
    COMPONENT_CLASSES = {"row--selected"}  # noqa: RUF012

    def __init__(self, showing: Showing, look: Look, selected_another: Callable[[], None]) -> None:
        super().__init__()
        self._selected_another = selected_another
        self._showing = showing
        self._look = look
        self._rows: Sequence[Row] = ()
        self._nothing: str = ""
        self._index = 0
        self._identities: dict[str, tuple[str, Hashable]] = {}  # of the selected row, in each view
        self._layout: list[Place] = []
        self._width = 0  # that of the layout
        self._drawn: dict[int, list[Span]] = {}

    @property
    def rows(self) -> Sequence[Row]:
        """The rows, as they stand."""
        return self._rows

    @property
    def selected(self) -> Row | None:
        """The selected row; None where there is none."""
        return self._rows[self._index] if self._rows else None

    @property
    def position(self) -> tuple[int, int]:
        """Which row is selected, counted from 1, of how many."""
        return (self._index + 1 if self._rows else 0, len(self._rows))

    @property
    def columns(self) -> Collection[Column]:
        """The columns that there is room for."""
        return [place.column for place in self._layout]

    def show(self, rows: Sequence[Row], nothing: str) -> None:
        """Show these rows in this order; ``nothing`` is said where there are none."""
        before, selected = self._in_sight(), self._index
        view = self._showing.view
        self._rows, self._nothing = rows, nothing
        self._lay_out()
        wanted = self._identities.get(view.name)
        found = 0 if wanted is None else index_of(view, wanted, rows)
        self._index = max(0, min(selected if found is None else found, len(rows) - 1))
        self._remember()
        self.virtual_size = Size(self.size.width, len(rows))
        if self._index != selected:
            self._scroll_to_selected()
        lines = enumerate(zip(before, self._in_sight(), strict=False))
        self.repaint(y for y, (old, new) in lines if old != new)

    def render_line(self, y: int) -> Strip:
        """Return a line of those in sight."""
        if self._width != self.scrollable_content_region.width:
            self._lay_out()  # it is painted before it is told its size
        spans, selected = self._line(y + self.scroll_offset.y)
        return self.paint(
            spans, self.get_component_rich_style("row--selected", partial=True) if selected else None
        )

    def action_move(self, rows: int) -> None:
        """Select the row some rows further on."""
        self._select(self._index + rows)

    def action_move_page(self, pages: int) -> None:
        """Select the row some screens further on."""
        self._select(self._index + pages * max(self.size.height - 1, 1))

    def action_first(self) -> None:
        """Select the first row."""
        self._select(0)

    def action_last(self) -> None:
        """Select the last row."""
        self._select(len(self._rows) - 1)

    async def on_click(self, event: events.Click) -> None:
        """Select the row under the mouse; with a double click, show all about it."""
        row = event.y + self.scroll_offset.y
        if row < len(self._rows):
            self._select(row)
            if event.chain > 1:
                await self.run_action("app.details")

    def on_resize(self) -> None:
        """Lay the columns out for the new width."""
        self._lay_out()
        self._scroll_to_selected()

    def heads(self, cells: int) -> list[list[Span]]:
        """Return the line of titles that belongs above the table."""
        layout = lay_out(self._showing.plan, cells)
        return [self._join(layout, [[self._title(place)] for place in layout])]

    def column_at(self, cell: int) -> Column | None:
        """Return the column that stands at a cell of a line."""
        return column_at(self._layout, cell)

    def cells(self, row: Row) -> list[list[Span]]:
        """Return what stands in the columns of a row."""
        return [
            place.column.cell(row if place.column is TARGET else row.item, place.width, self._look)
            for place in self._layout
        ]

    def _lay_out(self) -> None:
        self._width = self.scrollable_content_region.width
        self._layout = lay_out(self._showing.plan, self._width)
        self._drawn.clear()

    def _title(self, place: Place) -> Span:
        title, showing = place.column.title, self._showing
        if place.column != showing.order.column:
            return title, "quiet"
        sign = self._look.glyphs.up if showing.backwards else self._look.glyphs.down
        meaning: Meaning = "strong"
        return (f"{title}{sign}" if len(title) < place.width else title), meaning

    def _select(self, index: int) -> None:
        index = max(0, min(index, len(self._rows) - 1))
        if index != self._index:
            top, before, self._index = self.scroll_offset.y, self._index, index
            self._remember()
            self.repaint((before - top, index - top))
            self._scroll_to_selected()
            self._selected_another()

    def _remember(self) -> None:
        if self.selected:
            view = self._showing.view
            self._identities[view.name] = identity_of(view, self.selected)

    def _scroll_to_selected(self) -> None:
        top, height = self.scroll_offset.y, self.size.height
        if not height:
            return
        if self._index < top:
            self.scroll_to(y=self._index, animate=False)
        elif self._index >= top + height:
            self.scroll_to(y=self._index - height + 1, animate=False)

    def _in_sight(self) -> list[tuple[list[Span], bool]]:
        top = self.scroll_offset.y
        return [self._line(row) for row in range(top, top + self.size.height)]

    def _line(self, row: int) -> tuple[list[Span], bool]:
        if row >= len(self._rows):
            nothing: list[Span] = [(self._nothing, "quiet")] if row == 0 else []
            return nothing, False
        if row not in self._drawn:
            self._drawn[row] = self._join(self._layout, self.cells(self._rows[row]))
        return self._drawn[row], row == self._index

    def _join(self, layout: Sequence[Place], cells: Sequence[Sequence[Span]]) -> list[Span]:
        spans: list[Span] = []
        for place, cell in zip(layout, cells, strict=True):
            spans.append((" " * place.blanks, "text"))
            spans += fit(cell, place.width, self._look.glyphs.ellipsis, right=place.column.right)
        return spans

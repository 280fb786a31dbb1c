"""The table of locks: draws only the rows in sight, so that ten thousand cost what fifty do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView

from pglock_inspect.present.spans import fit
from pglock_inspect.top.keys import MOVE
from pglock_inspect.top.layout import lay_out
from pglock_inspect.top.rows import identity, index_of
from pglock_inspect.top.ui.painted import Painted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual import events
    from textual.strip import Strip

    from pglock_inspect.model import Lock
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Span
    from pglock_inspect.top.layout import Place
    from pglock_inspect.top.rows import Identity


class LockTable(Painted, ScrollView, can_focus=True):
    """Locks as rows, one of them selected; the selection stays on its lock while rows move."""

    BINDINGS = [Binding(key.keys, key.action, key.does, show=False) for key in MOVE]  # noqa: RUF012
    COMPONENT_CLASSES = {"row--selected"}  # noqa: RUF012

    class Selected(Message):
        """Another lock is selected, or the same one is known in a new state; None where there is none."""

        def __init__(self, lock: Lock | None) -> None:
            super().__init__()
            self.lock = lock

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._locks: Sequence[Lock] = ()
        self._empty: str = ""
        self._index = 0
        self._identity: Identity | None = None
        self._layout: list[Place] = []
        self._drawn: dict[int, list[Span]] = {}

    @property
    def selected(self) -> Lock | None:
        """The selected lock; None where there is none."""
        return self._locks[self._index] if self._locks else None

    @property
    def position(self) -> tuple[int, int]:
        """Which row is selected, counted from 1, of how many."""
        return (self._index + 1 if self._locks else 0, len(self._locks))

    def show(self, locks: Sequence[Lock], empty: str) -> None:
        """Show these locks in this order; ``empty`` is said where there are none."""
        before, selected = self._in_sight(), self._index
        self._locks, self._empty = locks, empty
        self._drawn.clear()
        found = None if self._identity is None else index_of(self._identity, locks)
        self._index = max(0, min(selected if found is None else found, len(locks) - 1))
        self._identity = identity(locks[self._index]) if locks else None
        self.virtual_size = Size(self.size.width, len(locks))
        if self._index != selected:
            self._scroll_to_selected()
        for y, (old, new) in enumerate(zip(before, self._in_sight(), strict=False)):
            if old != new:
                self.refresh_line(y + self.scroll_offset.y)
        self.post_message(self.Selected(self.selected))

    def render_line(self, y: int) -> Strip:
        """Return a line of those in sight."""
        spans, selected = self._line(y + self.scroll_offset.y)
        return self.paint(
            spans, self.get_component_rich_style("row--selected", partial=True) if selected else None
        )

    def action_move(self, rows: int) -> None:
        """Select the lock some rows further on."""
        self._select(self._index + rows)

    def action_move_page(self, pages: int) -> None:
        """Select the lock some screens further on."""
        self._select(self._index + pages * max(self.size.height - 1, 1))

    def action_first(self) -> None:
        """Select the first lock."""
        self._select(0)

    def action_last(self) -> None:
        """Select the last lock."""
        self._select(len(self._locks) - 1)

    def on_click(self, event: events.Click) -> None:
        """Select the lock under the mouse."""
        row = event.y + self.scroll_offset.y
        if row < len(self._locks):
            self._select(row)

    def on_resize(self) -> None:
        """Lay the columns out for the new width."""
        self._layout = lay_out(self.scrollable_content_region.width)
        self._drawn.clear()
        self._scroll_to_selected()
        self.refresh()

    def heads(self, cells: int) -> list[list[Span]]:
        """Return the line of titles that belongs above the table."""
        layout = lay_out(cells)
        return [self._join(layout, [[(place.column.title, "quiet")] for place in layout])]

    def _select(self, index: int) -> None:
        index = max(0, min(index, len(self._locks) - 1))
        if index != self._index:
            self.refresh_line(self._index)
            self._index = index
            self._identity = identity(self._locks[index])
            self.refresh_line(index)
            self._scroll_to_selected()
            self.post_message(self.Selected(self.selected))

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
        if row >= len(self._locks):
            empty: list[Span] = [(self._empty, "quiet")] if row == 0 else []
            return empty, False
        if row not in self._drawn:
            lock, look = self._locks[row], self._look
            cells = [place.column.cell(lock, place.width, look) for place in self._layout]
            self._drawn[row] = self._join(self._layout, cells)
        return self._drawn[row], row == self._index

    def _join(self, layout: Sequence[Place], cells: Sequence[Sequence[Span]]) -> list[Span]:
        spans: list[Span] = []
        for place, cell in zip(layout, cells, strict=True):
            spans.append((" " * place.blanks, "text"))
            spans += fit(cell, place.width, self._look.glyphs.ellipsis, right=place.column.right)
        return spans

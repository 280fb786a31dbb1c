"""The help: every key and what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.screen import ModalScreen

from pglock_inspect.top.keys import explained
from pglock_inspect.top.ui.pane import Pane

if TYPE_CHECKING:
    from textual.app import ComposeResult


class Help(ModalScreen[None]):
    """A box over the table; what ends things closes it."""

    BINDINGS = [Binding("escape,question_mark,enter,space,q", "dismiss", show=False)]  # noqa: RUF012

    def compose(self) -> ComposeResult:
        """Lay the box out."""
        yield Pane(explained(), id="help")

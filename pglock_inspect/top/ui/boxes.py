"""Boxes over the table: the help, a choice, a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.binding import Binding
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from pglock_inspect.top.keys import explained
from pglock_inspect.top.sections import Entry, Section
from pglock_inspect.top.ui.pane import Pane

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from pglock_inspect.top.keys import Groups

_HELP_COLUMN = 34


class Help(ModalScreen[None]):
    """Every key and what it does; what ends things closes it."""

    BINDINGS = [Binding("escape,question_mark,f1,enter,space,q", "dismiss", show=False)]  # noqa: RUF012

    def __init__(self, groups: Groups) -> None:
        super().__init__()
        self._groups = groups

    def compose(self) -> ComposeResult:
        """Lay the box out."""
        yield Pane(explained(self._groups), id="help", column=_HELP_COLUMN)


class Choice(ModalScreen[str | None]):
    """Options, which are inert text; ends with None where none is chosen."""

    BINDINGS = [  # noqa: RUF012
        Binding("escape,q", "dismiss(None)", show=False),
        Binding("k", "move('up')", show=False),
        Binding("j", "move('down')", show=False),
    ]

    def __init__(self, title: str, options: Sequence[str], chosen: str | None = None) -> None:
        super().__init__()
        self._title, self._options, self._chosen = title, options, chosen

    def compose(self) -> ComposeResult:
        """Lay the box out."""
        # A string would be read as markup.
        options = OptionList(*(Option(Content(option)) for option in self._options), id="choice")
        options.border_title = Content(self._title)
        if self._chosen in self._options:
            options.highlighted = self._options.index(self._chosen)
        yield options

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """End with what was chosen."""
        self.dismiss(self._options[event.option_index])

    async def action_move(self, where: str) -> None:
        """Go up or down the list."""
        await self.query_one(OptionList).run_action(f"cursor_{where}")


class Confirm(ModalScreen[bool]):
    """A question that `y` alone says yes to; Enter, pressed once too often, does not."""

    BINDINGS = [  # noqa: RUF012
        Binding("y", "dismiss(True)", show=False),
        Binding("n,escape,q", "dismiss(False)", show=False),
    ]

    def __init__(self, question: str, account: Sequence[str]) -> None:
        super().__init__()
        self._sections = [
            Section(question, [Entry("", f"{sentence}.") for sentence in account]),
            Section(
                "The server is asked again before anything is done.",
                [
                    Entry("y", "do it", "strong", "critical"),
                    Entry("n", "leave it, as Esc does", "text", "strong"),
                ],
            ),
        ]

    def compose(self) -> ComposeResult:
        """Lay the box out."""
        yield Pane(self._sections, id="confirm", column=1_000)

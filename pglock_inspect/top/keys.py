"""The keys, each with what it does: what the program obeys and what its help shows."""

from __future__ import annotations

from typing import NamedTuple

from pglock_inspect.top.sections import Entry, Section


class Key(NamedTuple):
    """``keys`` as Textual calls them, and ``shown`` as people do."""

    keys: str
    action: str
    shown: str
    does: str


MOVE = (
    Key("up,k", "move(-1)", "Up  k", "the lock above"),
    Key("down,j", "move(1)", "Down  j", "the lock below"),
    Key("pageup", "move_page(-1)", "PgUp", "a screen up"),
    Key("pagedown", "move_page(1)", "PgDn", "a screen down"),
    Key("home,g", "first", "Home  g", "the first lock"),
    Key("end,G", "last", "End  G", "the last lock"),
)
SHOW = (
    Key("slash", "filter", "/", "filter by job, user, application, database"),
    Key("enter", "details", "Enter", "all about the selected lock, and back"),
    Key("tab", "app.focus_next", "Tab", "scroll the details with the arrow keys"),
    Key("escape", "leave", "Esc", "back; clear the filter"),
)
RUN = (
    Key("space", "pause", "Space", "hold the picture; polling goes on"),
    Key("plus,equals_sign", "interval(1)", "+", "poll less often"),
    Key("minus", "interval(-1)", "-", "poll more often"),
    Key("question_mark", "help", "?", "this help"),
    Key("q", "quit", "q", "quit"),
    Key("ctrl+c", "quit", "Ctrl-C", "quit from anywhere"),
    Key("ctrl+z", "suspend_process", "Ctrl-Z", "suspend"),
)


def explained() -> list[Section]:
    """Return what all keys do."""
    return [
        Section(title, [Entry(key.shown, key.does, label_meaning="strong") for key in keys])
        for title, keys in (("Move", MOVE), ("Look", SHOW), ("Run", RUN))
    ]

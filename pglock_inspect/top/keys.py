"""The keys, each with what it does: what the program obeys, and what its help and its palette show."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.top.sections import Entry, Section

if TYPE_CHECKING:
    from collections.abc import Mapping

    Groups = Mapping[str, tuple["Key", ...]]
    """Keys by what they are for."""


class Key(NamedTuple):
    """``keys`` as Textual calls them, and ``shown`` as people do."""

    keys: str
    action: str
    shown: str
    does: str


MOVE = (
    Key("up,k", "move(-1)", "Up  k", "the row above"),
    Key("down,j", "move(1)", "Down  j", "the row below"),
    Key("pageup,ctrl+b", "move_page(-1)", "PgUp", "a screen up"),
    Key("pagedown,ctrl+f", "move_page(1)", "PgDn", "a screen down"),
    Key("home,g", "first", "Home  g", "the first row"),
    Key("end,G", "last", "End  G", "the last row"),
)
VIEWS = (
    Key("1", "view('locks')", "1", "locks"),
    Key("2", "view('jobs')", "2", "jobs, also free ones"),
    Key("3,t", "view('waits')", "3  t", "waits, as a tree"),
    Key("4,f", "view('findings')", "4  f", "findings"),
    Key("5", "view('history')", "5", "history"),
)
LOOK = (
    Key("enter", "details", "Enter", "all about the row"),
    Key("tab", "app.focus_next", "Tab", "scroll the details"),
    Key("slash", "filter", "/", "filter the rows"),
    Key("s", "deed('sort')", "s", "choose the order"),
    Key("less_than_sign", "sort_column(-1)", "<", "sort by column: left"),
    Key("greater_than_sign", "sort_column(1)", ">", "sort by column: right"),
    Key("r", "reverse", "r", "reverse the order"),
    Key("T", "deed('choose_target')", "T", "choose the target"),
    Key("escape", "leave", "Esc", "back; clear the filter"),
)
ACT = (
    Key("c", "deed('cancel')", "c", "cancel a waiter"),
    Key("K", "deed('terminate')", "K", "terminate a holder"),
    Key("y", "deed('copy_row')", "y", "copy the row"),
    Key("Y", "deed('copy_details')", "Y", "copy all about it"),
    Key("e", "deed('export')", "e", "export the rows"),
)
RUN = (
    Key("space", "pause", "Space", "hold the picture"),
    Key("plus,equals_sign", "interval(1)", "+", "poll less often"),
    Key("minus", "interval(-1)", "-", "poll more often"),
    Key("colon,ctrl+p", "deed('open_palette')", ":", "all commands by name"),
    Key("question_mark,f1", "deed('show_help')", "?", "this help"),
    Key("q", "quit", "q", "quit"),
    Key("ctrl+c", "quit", "Ctrl-C", "quit from anywhere"),
    Key("ctrl+z", "suspend_process", "Ctrl-Z", "suspend"),
)
PLAY = (
    Key("space", "pause", "Space", "play, or stop"),
    Key("full_stop,right", "step(1)", ".  Right", "the next poll"),
    Key("comma,left", "step(-1)", ",  Left", "the poll before"),
    Key("n", "find(1)", "n", "where more was found"),
    Key("N", "find(-1)", "N", "the same, backwards"),
    Key("at", "go_to", "@", "go to a time"),
    Key("plus,equals_sign", "accelerate(1)", "+", "twice as fast"),
    Key("minus", "accelerate(-1)", "-", "half as fast"),
    Key("backspace", "accelerate(0)", "Backspace", "as fast as it was"),
)
LIVE: Groups = {"Move": MOVE, "Views": VIEWS, "Look": LOOK, "Do": ACT, "Run": RUN}
_LIVE_ONLY = {"deed('cancel')", "deed('terminate')", "pause", "interval(1)", "interval(-1)"}
REPLAY: Groups = {"Play": PLAY} | {
    title: tuple(key for key in keys if key.action not in _LIVE_ONLY) for title, keys in LIVE.items()
}
TEXTUAL = {
    shown: key
    for group in (PLAY, *LIVE.values())
    for each in group
    for shown, key in zip(each.shown.split(), each.keys.split(","), strict=False)
}
"""What Textual calls a key, by what is shown of it."""
FILTERS = Section(
    "A filter",
    [
        Entry("digest", "anywhere; may be a regular expression", label_meaning="strong"),
        Entry("job:^send", "one of job, user, application, database, target", label_meaning="strong"),
        Entry("app:cron db:x", "all words have to fit", label_meaning="strong"),
    ],
)


def explained(groups: Groups = LIVE) -> list[Section]:
    """Return what keys do."""
    told = [
        Section(title, [Entry(f"{key.shown:3}", key.does, label_meaning="strong") for key in keys])
        for title, keys in groups.items()
    ]
    return [*told, FILTERS]

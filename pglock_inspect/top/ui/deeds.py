"""What keys do that nobody needs to begin with: loaded when the first of them is pressed."""

from __future__ import annotations

from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.command import CommandPalette

from pglock_inspect.errors import PglockInspectError, Refused
from pglock_inspect.top.export import FORMATS, export as write
from pglock_inspect.top.sections import plain
from pglock_inspect.top.ui import themes
from pglock_inspect.top.ui.boxes import Choice, Confirm, Help

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.top.acting import Action, Proposal
    from pglock_inspect.top.ui.app import TopApp

_NOT_BY_NAME = {"deed('open_palette')", "app.focus_next", "leave"}


def show_help(app: TopApp) -> None:
    """Show what the keys do."""
    app.push_screen(Help(app.groups))


def sort(app: TopApp) -> None:
    """Ask what to sort by."""
    showing = app.showing
    orders = {order.name: order for order in showing.view.orders}

    def chosen(name: str | None) -> None:
        if name is not None:
            showing.sort(orders[name])
            app.show()

    app.push_screen(Choice("Sort by", [*orders], showing.order.name), chosen)


def choose_target(app: TopApp) -> None:
    """Ask which server to show."""
    every = "all targets"
    names = [app.look.text(source.target) for source in app.servers.sources]

    def chosen(name: str | None) -> None:
        if name is not None:
            app.showing.source = None if name == every else names.index(name)
            app.show()

    now = every if app.showing.source is None else names[app.showing.source]
    app.push_screen(Choice("Show", [every, *names] if len(names) > 1 else names, now), chosen)


def copy_row(app: TopApp) -> None:
    """Hand the selected row to the terminal's clipboard."""
    row = app.table.selected
    if row is not None:
        cells = ("".join(text for text, _ in cell).strip() for cell in app.table.cells(row))
        text = "  ".join(filter(None, cells))
        app.copy_to_clipboard(text)
        app.tell(f"Copied, if the terminal allows it: {text}")


def copy_details(app: TopApp) -> None:
    """Hand all about the selected row to the terminal's clipboard."""
    row = app.table.selected
    if row is not None:
        app.copy_to_clipboard(plain(app.showing.view.describe(row, app.look)))
        app.tell("Copied all about it, if the terminal allows it.")


def export(app: TopApp) -> None:
    """Ask for a format, and write the rows to a file in the working directory."""
    view, rows = app.showing.view, app.table.rows

    def chosen(format_: str | None) -> None:
        if format_ is None:
            return
        try:
            path = write(view, rows, format_, Path.cwd())
        except OSError as error:
            app.tell(f"The rows could not be written to {Path.cwd()}: {error.strerror}.", "critical")
        else:
            app.tell(f"{len(rows)} rows are in {path}", "good")

    app.push_screen(Choice(f"Export {len(rows)} rows as", [*FORMATS]), chosen)


def cancel(app: TopApp) -> None:
    """Make the waiter that is selected give up, once it is confirmed."""
    _end(app, "cancel")


def terminate(app: TopApp) -> None:
    """End the process that is selected, once it is confirmed."""
    _end(app, "terminate")


def _end(app: TopApp, action: Action) -> None:
    row = app.table.selected
    source = app.servers.source_of(row) if row else app.servers.sources[0]
    if source.propose is None:
        app.tell("This view is read-only: nothing can be cancelled or terminated here.", "warning")
        return
    lock = app.showing.view.lock_of(row) if row else None
    if row is None or lock is None:
        app.tell("This row is about no lock that somebody holds or waits for.", "warning")
        return
    try:
        proposal = source.propose(row.sight.report, lock, action)
    except Refused as refused:
        more = f" {refused.instead}" if refused.instead else ""
        app.tell(f"{refused}{more}", "warning")
        return

    def answered(yes: bool | None) -> None:  # noqa: FBT001 - as Textual calls it
        if yes:
            app.tell("Under way …" if app.look.encoding == "utf-8" else "Under way ...")
            source.poller.do(partial(_carry_out, app, proposal))
        else:
            app.tell("Nothing was done.")

    told = [app.look.text(sentence) for sentence in proposal.account]
    app.push_screen(Confirm(app.look.text(proposal.question), told), answered)


def _carry_out(app: TopApp, proposal: Proposal) -> None:
    # This runs in the poller's thread.
    try:
        outcome = proposal.carry_out()
    except PglockInspectError as error:
        app.call_later(app.tell, str(error), "critical")
    else:
        app.call_later(app.tell, outcome.text, "good" if outcome.done else "warning")


def open_palette(app: TopApp) -> None:
    """Ask for a command by its name."""
    app.push_screen(CommandPalette(placeholder="What to do"))


def commands(app: TopApp) -> Iterator[SystemCommand]:
    """Yield what the palette offers: what keys do, and the themes."""
    for key in chain.from_iterable(keys for title, keys in app.groups.items() if title != "Move"):
        if key.action not in _NOT_BY_NAME:
            yield SystemCommand(key.does, f"key {key.shown}", partial(app.run_action, key.action))
    for name in themes.ALL:
        yield SystemCommand(f"theme {name}", "colors", partial(setattr, app, "theme", name))

"""The views: what each has rows for, in which columns and orders. A view is loaded when it is opened."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pglock_inspect.top.view import View

NAMES = ("locks", "jobs", "waits", "findings", "history")


def load(name: str) -> View:
    """Return one of the views by its name."""
    view: View = import_module(f"{__name__}.{name}").VIEW
    return view

"""When Python looks for garbage in cycles: hardly while modules are loaded, of which all stays."""

from __future__ import annotations

import gc

_USUAL = gc.get_threshold()


def loading() -> None:
    """Look hardly ever, which saves a tenth of a start."""
    gc.set_threshold(100_000)


def loaded() -> None:
    """Look as usual from now on, and never at what there is by now: for a program that stays."""
    gc.freeze()
    gc.set_threshold(*_USUAL)

"""What can be done to a process, as the one who opened the view offers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from pglock_inspect.model import Lock, Report

Action = Literal["terminate", "cancel"]


class Outcome(NamedTuple):
    """What is true after the act, in a sentence; and whether it is what was wanted."""

    text: str
    done: bool


class Proposal(NamedTuple):
    """An act that waits for a yes: what is asked, what is known of the process and what would happen to it.

    ``carry_out`` is called in the thread that polls, and raises `PglockInspectError` where nothing was done.
    """

    question: str
    account: tuple[str, ...]
    carry_out: Callable[[], Outcome]


Propose = Callable[[Report, Lock, Action], Proposal]
"""Makes a proposal for the process of a lock as it was shown. Raises `Refused`."""

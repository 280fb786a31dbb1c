"""Waiting for something that another process does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def wait_until(condition: Callable[[], T], what: str, *, timeout: float = 10.0) -> T:
    """Return what `condition` returns once it is true; fail after `timeout` seconds, naming `what`."""
    deadline = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(0.01)
    return value

"""Giving up on a server that does not answer, whatever psycopg waits for and however it waits."""

from __future__ import annotations

import time
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from psycopg.errors import ConnectionTimeout

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Return seconds of a clock that goes on while the machine sleeps, where the system has one."""
    return time.clock_gettime(_CLOCK)


def within(seconds: float, question: PQGen[T]) -> PQGen[T]:
    """Give up on a question after a time; psycopg resumes a waiting generator ten times a second.

    Raises psycopg's `ConnectionTimeout`.
    """
    deadline = monotonic() + seconds
    try:
        wanted = next(question)
        while True:
            ready = yield wanted
            if not ready and monotonic() >= deadline:
                raise ConnectionTimeout(f"the server did not answer within {seconds:g} s")
            wanted = question.send(ready)
    except StopIteration as end:
        answer: T = end.value
        return answer

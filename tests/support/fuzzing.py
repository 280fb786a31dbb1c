"""What holds for whatever comes in: it is dealt with in time, and in little memory."""

from __future__ import annotations

import resource
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

fuzzed = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=set(Phase) - {Phase.explain},  # which takes minutes
)
"""For a test that guards each example with `bounded`."""

_SECONDS = 20  # for what takes milliseconds, on a machine that does ten things at once
_BYTES = 400_000_000
_UNIT = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, see getrusage(2)


class Hangs(AssertionError):
    """It did not come to an end."""


@contextmanager
def bounded(what: str = "it") -> Iterator[None]:
    """Fail where the block, which deals with `what`, hangs or makes this process large."""

    def hangs(*_: object) -> NoReturn:
        raise Hangs(f"{what!r} is not at an end after {_SECONDS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    signal.alarm(_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most) * _UNIT
    assert grown < _BYTES, f"it took {grown:,} bytes"

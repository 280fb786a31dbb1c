"""With FUZZ_SECONDS=600, tests share so long, with ever new examples (`make fuzz`)."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

_SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Call a property again and again, until its part of the time is over."""
    end = time.monotonic() + _SECONDS * _WORKERS / len(pyfuncitem.session.items)
    result = yield
    rounds = 1
    while pyfuncitem.get_closest_marker("hypothesis") and time.monotonic() < end:
        names = pyfuncitem._fixtureinfo.argnames
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
        rounds += 1
    if _SECONDS:
        pyfuncitem.user_properties.append(("counted", f"{rounds} rounds of examples"))
    return result

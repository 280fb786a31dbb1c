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
    began = time.monotonic()
    result = yield
    if not (_SECONDS and pyfuncitem.get_closest_marker("hypothesis")):
        return result
    properties = [item for item in pyfuncitem.session.items if item.get_closest_marker("hypothesis")]
    end = began + _SECONDS * _WORKERS / len(properties)
    rounds = 1
    while time.monotonic() < end:
        names = pyfuncitem._fixtureinfo.argnames
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
        rounds += 1
    pyfuncitem.user_properties.append(("counted", f"{rounds} rounds of examples"))
    return result

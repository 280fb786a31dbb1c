"""The public surface of the package."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

import pglock_inspect
from pglock_inspect import LockError, PglockInspectError, errors, lock


def test_what_is_public_is_sorted_and_there() -> None:
    assert pglock_inspect.__all__ == sorted(pglock_inspect.__all__)
    for name in pglock_inspect.__all__:
        assert getattr(pglock_inspect, name)
        assert getattr(pglock_inspect, name) is getattr(errors, name, None) or name in lock.__all__
    with pytest.raises(AttributeError, match="no attribute 'run_with_luck'"):
        pglock_inspect.run_with_luck  # type: ignore[attr-defined]  # noqa: B018


def test_an_import_costs_nothing_before_the_helper_is_used() -> None:
    program = """
import sys
before = set(sys.modules)
import pglock_inspect
assert not {"psycopg", "asyncio", "dataclasses"} & (set(sys.modules) - before)
from pglock_inspect import run_with_lock
assert "psycopg" in sys.modules
assert not {"typer", "rich", "msgspec", "textual", "prometheus_client", "starlette"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-I", "-c", program], check=True)


@pytest.mark.parametrize("name", [name for name in pglock_inspect.__all__ if name.islower()])
def test_the_twins_take_the_same(name: str) -> None:
    function = inspect.signature(getattr(pglock_inspect, name))
    twin = inspect.signature(
        getattr(pglock_inspect, name.removeprefix("a") if name[0] == "a" else f"a{name}")
    )
    assert list(function.parameters) == list(twin.parameters)


def test_the_errors_of_the_helper_are_one_tree() -> None:
    ours = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, LockError)]
    assert {one.__name__ for one in ours} == {
        "AlreadyHeld",
        "InTransaction",
        "LockError",
        "LockLost",
        "LockTimeout",
        "NotAPsycopgConnection",
        "PoolerDetected",
        "UncommittedWork",
        "UsedAfterFork",
    }
    assert all(one.__name__ in pglock_inspect.__all__ for one in ours)
    assert issubclass(LockError, PglockInspectError)
    for one in ours:
        assert f" {one.__name__} " in str(errors.__doc__)


class Psycopg2Connection:
    """Of another driver."""


@pytest.mark.parametrize("wrong", [None, 42, b"host=localhost", Psycopg2Connection()])
@pytest.mark.parametrize("make", [pglock_inspect.try_lock, pglock_inspect.atry_lock])
def test_another_object_is_refused_by_name(make: Any, wrong: object) -> None:  # noqa: ANN401
    with pytest.raises(
        TypeError, match=rf"{type(wrong).__qualname__} is not psycopg\.(Async)?Connection: pass"
    ):
        make(wrong, "job")


def test_a_hostile_name_does_no_harm_in_a_message() -> None:
    with pytest.raises(errors.LockTimeout) as refused:
        pglock_inspect.try_lock("host=nowhere", "\x1b[31m" + "x" * 1000)._held()
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.model import Held
from pglock_inspect.top.rows import arrange, identity
from tests.support.any_reports import LOCKS
from tests.support.reports import HOLDER, PREPARED, WAITER

if TYPE_CHECKING:
    from random import Random

    from pglock_inspect.model import Lock

CALM = replace(HOLDER, severity=None, held=Held(60.0, 60.0, None, "session_state"), pid=1)
LONG = replace(CALM, held=Held(7200.0, 7200.0, None, "session_state"), pid=2)
WARNED = replace(CALM, severity="warning", pid=3)
TOLD = replace(CALM, severity="info", pid=4)
UNKNOWN = replace(CALM, held=Held(None, None, None, "none"), pid=5)


def test_worst_first_then_longest_held() -> None:
    assert arrange([UNKNOWN, CALM, TOLD, LONG, WARNED, HOLDER]) == [HOLDER, WARNED, TOLD, LONG, CALM, UNKNOWN]


def test_holders_come_before_waiters_that_are_no_worse() -> None:
    longer = replace(WAITER, waited_seconds=9000.0, pid=6)
    assert arrange([WAITER, longer, CALM]) == [CALM, longer, WAITER]
    assert arrange([CALM, replace(WAITER, severity="warning")])[0].pid == WAITER.pid


def holder(lock: Lock) -> object:
    return (
        lock.key,
        lock.database or "",
        lock.mode,
        lock.pid or 0,
        lock.prepared.gid if lock.prepared else "",
    )


@given(st.lists(LOCKS, max_size=20, unique_by=holder), st.randoms())
def test_the_order_does_not_depend_on_the_order_before(locks: list[Lock], random: Random) -> None:
    shuffled = list(locks)
    random.shuffle(shuffled)
    assert arrange(shuffled) == arrange(locks)


def test_a_waiter_that_got_its_lock_is_the_same() -> None:
    granted = replace(WAITER, granted=True, held=CALM.held, waited_seconds=None)
    assert identity(WAITER) == identity(granted)


def test_another_mode_holder_or_database_is_not_the_same() -> None:
    others = [
        replace(HOLDER, mode="ShareLock"),
        replace(HOLDER, pid=1),
        replace(HOLDER, database="other"),
        PREPARED,
    ]
    assert identity(HOLDER) not in {identity(other) for other in others}

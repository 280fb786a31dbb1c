from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Alike, Held
from pglock_inspect.top.rows import Locks, identity, worst_first
from tests.support.any_reports import LOCKS
from tests.support.reports import HOLDER, PREPARED, WAITER, make_report

if TYPE_CHECKING:
    from random import Random

    from pglock_inspect.model import Lock

CALM = replace(HOLDER, severity=None, held=Held(60.0, 60.0, None, "session_state"), pid=1)
LONG = replace(CALM, held=Held(7200.0, 7200.0, None, "session_state"), pid=2)
WARNED = replace(CALM, severity="warning", pid=3)
TOLD = replace(CALM, severity="info", pid=4)
UNKNOWN = replace(CALM, held=Held(None, None, None, "none"), pid=5)


def arrange(locks: list[Lock]) -> list[Lock]:
    return [*Locks(make_report(*locks).alike)]


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
    assert arrange(shuffled) == arrange(locks) == sorted(locks, key=worst_first)


@given(st.lists(LOCKS, max_size=20, unique_by=holder), st.lists(LOCKS, max_size=20, unique_by=holder))
def test_each_is_found_by_what_it_is_and_what_was_in_order_stays_so(
    before: list[Lock], locks: list[Lock]
) -> None:
    arranged = Locks(make_report(*locks).alike, Locks(make_report(*before, *locks).alike))
    assert [*arranged] == arrange(locks)
    for place, lock in enumerate(arranged):
        found = arranged.find(identity(lock))
        assert found is not None
        assert identity(arranged[found]) == identity(lock)
        assert lock in arranged.where(lambda other, lock=lock: replace(other, key=lock.key) == lock)  # type: ignore[misc]
        assert lock == arranged[place - len(arranged)] == lock
    assert arranged.find(identity(replace(HOLDER, pid=-1))) is None


def test_what_differs_in_its_key_alone_is_listed_key_by_key_among_all_of_its_rank() -> None:
    other = replace(CALM, mode="ShareLock")
    alike = [(CALM, {3, 1, 2**63}), (other, {2, 3}), (LONG, {9})]
    locks = Locks(Alike(lock, frozenset(keys)) for lock, keys in alike)
    listed = [(lock.key.packed, lock.mode) for lock in locks]
    assert listed == [
        (9, LONG.mode),
        (1, CALM.mode),
        (2, "ShareLock"),
        (3, CALM.mode),
        (3, "ShareLock"),
        (2**63, CALM.mode),
    ]
    assert locks.find(identity(replace(other, key=AdvisoryKey(0, 3, other.key.objsubid)))) == 4


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

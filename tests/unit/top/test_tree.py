from __future__ import annotations

from hypothesis import given
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Blocked
from pglock_inspect.present.look import Look
from pglock_inspect.top.tree import branch, forest, tree_of
from tests.support.any_reports import reports
from tests.support.reports import HOLDER, PREPARED, SESSION, WAITER, make_report

LOOK = Look()
SECOND = replace(WAITER, pid=4721, waited_seconds=800.0, queued_behind=(4720,))
OTHER = AdvisoryKey.from_bigint(9)


def drawn(report: object) -> list[str]:
    return [f"{branch(node, LOOK)}{node.process}" for node in forest(report)]  # type: ignore[arg-type]


def test_who_waits_stands_below_whom_it_waits_for_in_the_order_of_the_queue() -> None:
    assert drawn(make_report(SECOND, WAITER, HOLDER)) == ["4711", "├─ 4720", "└─ 4721"]


def test_a_holder_that_waits_itself_stands_in_the_middle() -> None:
    blocked = replace(WAITER, key=OTHER, pid=4711, blocked_by=(1,), waited_seconds=5.0)
    root = replace(HOLDER, key=OTHER, pid=1)
    assert drawn(make_report(SECOND, WAITER, HOLDER, blocked, root)) == [
        *("1", "└─ 4711", "   ├─ 4720", "   └─ 4721")
    ]


def test_other_locks_lead_to_the_root_too() -> None:
    chain = {
        4711: Blocked(4711, SESSION, "a relation lock", 16.0, (77, 0)),
        77: Blocked(77, replace(SESSION, pid=77)),
    }
    report = replace(make_report(WAITER, HOLDER), chain=chain)
    assert drawn(report) == ["77", "└─ 4711", "   └─ 4720", "a prepared transaction"]
    root, middle, _, _ = forest(report)
    assert (root.lock, root.session) == (None, chain[77].session)
    assert (middle.waits_for, middle.waited_seconds, middle.holding) == ("a relation lock", 16.0, HOLDER)


def test_the_longest_wait_comes_first_and_prepared_transactions_can_be_roots() -> None:
    waiter = replace(WAITER, key=PREPARED.key, pid=9, blocked_by=("transfer-17",), waited_seconds=900.0)
    report = make_report(WAITER, HOLDER, waiter, replace(PREPARED, waiters=1))
    assert drawn(report) == ["transfer-17", "└─ 9", "4711", "└─ 4720"]


def test_a_circle_is_shown_once() -> None:
    one = replace(WAITER, pid=1, blocked_by=(2,))
    two = replace(WAITER, key=OTHER, pid=2, blocked_by=(1,))
    assert drawn(make_report(one, two)) == ["1", "└─ 2"]


def test_a_tree_of_one_lock() -> None:
    other = replace(WAITER, key=OTHER, pid=9, blocked_by=(8,))
    report = make_report(WAITER, HOLDER, other, replace(HOLDER, key=OTHER, pid=8))
    assert [node.process for node in tree_of(WAITER, report)] == [4711, 4720]
    assert [node.process for node in tree_of(other, report)] == [8, 9]
    assert tree_of(replace(HOLDER, waiters=0), report) == []


@given(reports())
def test_everybody_who_waits_is_in_it_once(report: object) -> None:
    found = [node.process for node in forest(report)]  # type: ignore[arg-type]
    assert len(found) == len(set(found))
    waiting = {lock.pid for lock in report.locks if not lock.granted and lock.pid}  # type: ignore[attr-defined]
    assert waiting <= set(found)

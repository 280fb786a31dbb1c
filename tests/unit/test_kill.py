"""What `kill` says of plain values; what it does is tested on real servers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pglock_inspect.errors import Refused
from pglock_inspect.kill import Order, Result, Seen, account, order_for_holder, order_for_process, result
from pglock_inspect.model import Instant, Lock, Session
from tests.support.reports import HOLDER, NOW, PREPARED, SESSION, WAITER, ago, make_report

WAITING = Order("cancel", WAITER, NOW, held=0)
HOLDING = Order("terminate", HOLDER, NOW, held=3)
THERE = Seen(
    lives=True,
    holds=True,
    waits=False,
    others=(),
    backend_start=SESSION.backend_start,
    state_change=SESSION.state_change,
)
GONE = replace(THERE, lives=False, holds=False, backend_start=None, state_change=None)


def test_the_account_says_what_is_lost() -> None:
    holds, does, loses = account(HOLDING)
    assert holds == (
        "pid 4711 (app, worker-3) at 10.0.0.7:51234 holds send_daily_digest in database app: "
        "held 42 min, at least 42 min, at most 3 h 2 min (evidence: session_state)"
    )
    assert does == "it is idle, for 42 min"
    assert loses == "ended, it loses its connection, its 3 advisory locks; 1 waiting for this lock"
    busy = replace(HOLDER, session=replace(SESSION, state="active", xact_start=ago(3)), waiters=0)
    assert list(account(replace(HOLDING, lock=busy, held=1)))[-1] == (
        "ended, it loses its connection, its 1 advisory lock, its open transaction, what it runs"
    )


def test_the_account_of_a_waiter_says_what_it_keeps() -> None:
    waiter = replace(WAITER, session=replace(SESSION, pid=4720, state="active", state_change=ago(720)))
    first, does, then = account(replace(WAITING, lock=waiter, held=2))
    assert first.endswith("waits for send_daily_digest in database app, for 12 min")
    assert does == "it is active, for 12 min"
    assert then == (
        "cancelled, its statement fails; its session goes on, "
        "and keeps its 2 advisory locks if of session level"
    )


def test_the_account_says_what_is_hidden() -> None:
    hidden = replace(HOLDER, session=Session(4711, user="app"))
    assert list(account(replace(HOLDING, lock=hidden)))[1] == (
        "what it does is hidden from this role (GRANT pg_monitor): only pid, key and mode are compared"
    )


def test_the_lock_that_something_was_found_about_stands_for_a_process() -> None:
    other = replace(HOLDER, key=HOLDER.key._replace(objid=1), name=None, findings=(), severity=None)
    order = order_for_process(make_report(other, HOLDER, WAITER), 4711, None)
    assert order.lock is HOLDER
    assert order.held == 2


@pytest.mark.parametrize(
    ("here", "seen", "expected"),
    [
        ([], GONE, Result("pid 4711 (app, worker-3) is gone; send_daily_digest is free")),
        (
            [replace(WAITER, granted=True)],
            GONE,
            Result(
                "pid 4711 (app, worker-3) is gone; send_daily_digest is held by pid 4720 (app, worker-1) now"
            ),
        ),
        (
            [HOLDER],
            THERE,
            Result(
                "pid 4711 (app, worker-3) was told to end, but is there and still has send_daily_digest: "
                "look again",
                done=False,
                settled=False,
            ),
        ),
        (
            [],
            THERE,
            Result(
                "pid 4711 (app, worker-3) was told to end, but is there: look again",
                done=False,
                settled=False,
            ),
        ),
        (
            [],
            replace(THERE, backend_start=ago(0)),  # its pid has been given away
            Result("pid 4711 (app, worker-3) is gone; send_daily_digest is free"),
        ),
    ],
)
def test_what_came_of_an_end(here: list[Lock], seen: Seen, expected: Result) -> None:
    assert result(HOLDING, seen, make_report(*here)) == expected


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        ([HOLDER], Result("pid 4720 (app, worker-1) no longer waits for send_daily_digest")),
        (
            [replace(WAITER, granted=True)],
            Result(
                "pid 4720 (app, worker-1) got send_daily_digest before it was cancelled, and holds it",
                done=False,
            ),
        ),
        (
            [replace(WAITER, session=Session(4720, state_change=Instant(NOW - 1)))],
            Result("pid 4720 (app, worker-1) was cancelled, and by now waits for send_daily_digest again"),
        ),
        (
            [replace(WAITER, waited_seconds=0.1)],
            Result("pid 4720 (app, worker-1) was cancelled, and by now waits for send_daily_digest again"),
        ),
        (
            [replace(WAITER, waited_seconds=720.1)],
            Result(
                "pid 4720 (app, worker-1) was told to give up, but still waits for send_daily_digest: "
                "look again",
                done=False,
                settled=False,
            ),
        ),
    ],
)
def test_what_came_of_a_cancellation(here: list[Lock], expected: Result) -> None:
    assert result(WAITING, THERE, make_report(*here)) == expected


def test_a_prepared_transaction_cannot_be_cancelled_either() -> None:
    with pytest.raises(Refused, match="held by a prepared transaction, which runs nothing that could be"):
        order_for_holder(make_report(PREPARED), [PREPARED], "7,-42", "cancel")


def test_a_prepared_transaction_in_the_midst_of_ending_is_told() -> None:
    ending = replace(PREPARED, prepared=None)
    with pytest.raises(Refused, match="by a prepared transaction that is ending: look again"):
        order_for_holder(make_report(ending), [ending], "7,-42", None)


def test_a_free_job_with_waiters_names_them() -> None:
    with pytest.raises(Refused) as refused:
        order_for_holder(make_report(WAITER), [WAITER], "send_daily_digest", None)
    assert str(refused.value) == (
        "nobody holds 'send_daily_digest': nothing was done; "
        "to make a waiter give up, name it with --cancel: pid 4720 (app, worker-1)"
    )

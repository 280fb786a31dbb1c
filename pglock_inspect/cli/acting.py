"""Orders carried out on a watcher's server: for ``kill``, and for the keys of ``top``."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pglock_inspect.errors import Refused, ServerFailure
from pglock_inspect.kill import (
    account,
    as_seen,
    has_only_gone_on,
    order_for_holder,
    order_for_process,
    refusal,
    result,
)
from pglock_inspect.postgres.act import act
from pglock_inspect.present.columns import label

if TYPE_CHECKING:
    from pglock_inspect.kill import Action, Order, Result
    from pglock_inspect.model import Lock, Report
    from pglock_inspect.top.acting import Outcome, Proposal, Propose
    from pglock_inspect.watch import Watcher

_LOOKS = 20  # at a session with the lock and never twice in one state, until it is taken to be at work
_PATIENCE = 5.0  # seconds, for a session to do as it was told
_PAUSE = 0.05


def poll(watcher: Watcher) -> Report:
    """Return a report that shows the server. Raises `ServerFailure`."""
    report = watcher.poll()
    if report.error is not None:
        raise ServerFailure(report.error, report.failure or "other")
    return report


def act_on(watcher: Watcher, order: Order, *, persistent: bool, dry: bool = False) -> None:
    """Signal the process, ``persistent`` also one that is never twice in the same state. Raises `Refused`."""
    assert watcher.reader
    seen = act(watcher.reader, order, dry=dry)
    for looks_left in reversed(range(_LOOKS)):
        if not (persistent and has_only_gone_on(order, seen)):
            break
        order = as_seen(order, seen, at_work=not looks_left)
        seen = act(watcher.reader, order, dry=dry)
    if reason := refusal(order, seen):
        raise Refused(reason)


def wait_for_result(watcher: Watcher, order: Order) -> Result:
    """Return what came of a signal, once that is settled, or has taken too long. Raises `ServerFailure`."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        assert watcher.reader
        seen = act(watcher.reader, order, dry=True)
        outcome = result(order, seen, poll(watcher))
        if outcome.settled or time.monotonic() >= give_up:
            return outcome
        time.sleep(_PAUSE)


def proposer(watcher: Watcher) -> Propose:
    """Return what proposes to end a process of the watcher's server."""
    from pglock_inspect.top.acting import Proposal  # noqa: PLC0415 - kill needs none of it

    def propose(report: Report, lock: Lock, action: Action) -> Proposal:
        order = _order(report, lock, action)
        return Proposal(
            f"{action.capitalize()} {order.who}?", tuple(account(order)), partial(_carry_out, watcher, order)
        )

    return propose


def _order(report: Report, lock: Lock, action: Action) -> Order:
    if lock.pid is None:
        return order_for_holder(report, [lock], label(lock), action)
    order = order_for_process(report, lock.pid, action)
    return replace(order, lock=lock) if action == "terminate" else order


def _carry_out(watcher: Watcher, order: Order) -> Outcome:
    from pglock_inspect.top.acting import Outcome  # noqa: PLC0415

    if watcher.reader is None:
        raise Refused("the server cannot be reached: nothing was done")
    # Who confirmed it has seen a holder at work; an idle one, and a waiter, must be as it was shown.
    session = order.lock.session
    at_work = order.lock.granted and session is not None and session.state == "active"
    act_on(watcher, order, persistent=at_work)
    came = wait_for_result(watcher, order)
    return Outcome(came.text, came.done)

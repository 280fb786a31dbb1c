"""What the server saw when it was to act, and what is true afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.kill.choose import listed
from pglock_inspect.model import Instant, Lock, Report, to_datetime

if TYPE_CHECKING:
    from pglock_inspect.kill.order import Order


class Seen(Struct, frozen=True):
    """An order's process in the moment of acting.

    ``holds`` and ``waits`` are about the order's key and mode; ``others`` are processes that hold it too.
    ``signalled`` is None where the process was not as it was shown, or nothing was to be done.
    """

    lives: bool
    holds: bool
    waits: bool
    others: tuple[int, ...]
    backend_start: Instant | None
    state_change: Instant | None
    signalled: bool | None = None


class Result(Struct, frozen=True):
    """What is true after a signal; not ``settled`` while the process may still do as it was told."""

    text: str
    done: bool = True
    settled: bool = True


def refusal(order: Order, seen: Seen) -> str | None:
    """Return why nothing was done, in a sentence; None where the process was as it was shown."""
    reason = _difference(order, seen)
    return reason and f"{reason}: nothing was done"


def has_only_gone_on(order: Order, seen: Seen) -> bool:
    """Whether it is the session that was shown, with its lock or wait, and has run something since."""
    return _is_same(order, seen) and _is_in_place(order, seen) and not _is_still(order, seen)


def as_seen(order: Order, seen: Seen, *, at_work: bool = False) -> Order:
    """Return the order for a session that has run something since it was shown, or never stops to."""
    assert order.lock.session
    session = replace(order.lock.session, state_change=seen.state_change)
    return replace(order, lock=replace(order.lock, session=session), at_work=at_work)


def result(order: Order, seen: Seen, report: Report) -> Result:
    """Return what is true of the process, and of the lock in a poll after that."""
    place = order.lock.database, order.lock.key
    here = [lock for lock in report.locks if (lock.database, lock.key) == place]
    return _after_cancel(order, here) if order.action == "cancel" else _after_end(order, seen, here)


def _difference(order: Order, seen: Seen) -> str | None:
    if not seen.lives:
        return f"{order.who} is gone"
    if not _is_same(order, seen):
        return f"pid {order.pid} is another session now, which began {_clock(seen.backend_start)}"
    if not _is_in_place(order, seen):
        return _moved_on(order, seen)
    if not _is_still(order, seen):
        return (
            f"{order.who} has run something since it was shown, and may have taken {order.name} anew "
            "(look again; --yes acts at once)"
        )
    return None


def _is_same(order: Order, seen: Seen) -> bool:
    return seen.lives and seen.backend_start == order.backend_start


def _is_in_place(order: Order, seen: Seen) -> bool:
    return seen.holds if order.lock.granted else seen.waits


def _is_still(order: Order, seen: Seen) -> bool:
    return order.at_work or seen.state_change == order.state_change


def _moved_on(order: Order, seen: Seen) -> str:
    if not order.lock.granted:
        got = "got it meanwhile" if seen.holds else "gave up or went on"
        return f"{order.who} no longer waits for {order.name}, but {got}"
    holders = ", ".join(f"pid {pid}" for pid in seen.others)
    return f"{order.who} no longer holds {order.name}" + (f", but {holders} does" if holders else "")


def _after_end(order: Order, seen: Seen, here: list[Lock]) -> Result:
    holders = [lock for lock in here if lock.granted]
    if not _is_same(order, seen):
        now = f"held by {listed(holders)} now" if holders else "free"
        return Result(f"{order.who} is gone; {order.name} is {now}")
    still = f" and still has {order.name}" if any(lock.pid == order.pid for lock in holders) else ""
    return Result(f"{order.who} was told to end, but is there{still}: look again", done=False, settled=False)


def _after_cancel(order: Order, here: list[Lock]) -> Result:
    own = [lock for lock in here if lock.pid == order.pid and lock.mode == order.lock.mode]
    if any(lock.granted for lock in own):
        return Result(f"{order.who} got {order.name} before it was cancelled, and holds it", done=False)
    if not own:
        return Result(f"{order.who} no longer waits for {order.name}")
    if _waits_anew(order.lock, own[0]):
        return Result(f"{order.who} was cancelled, and by now waits for {order.name} again")
    return Result(
        f"{order.who} was told to give up, but still waits for {order.name}: look again",
        done=False,
        settled=False,
    )


def _waits_anew(before: Lock, now: Lock) -> bool:
    if before.session and now.session and before.session.state_change != now.session.state_change:
        return True
    return (now.waited_seconds or 0.0) < (before.waited_seconds or 0.0)


def _clock(instant: Instant | None) -> str:
    return f"at {to_datetime(instant):%Y-%m-%d %H:%M:%S} UTC" if instant else "at a time that is hidden"

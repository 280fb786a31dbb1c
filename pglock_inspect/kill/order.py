"""What is to be done to one process, and what that means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.model import Instant, Lock, seconds_between

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.model import Session

Action = Literal["terminate", "cancel"]


class Order(Struct, frozen=True):
    """What is to be done to the process of ``lock``, which holds or waits as it was shown.

    ``taken_at`` is when the locks were read, ``held`` how many of them the process holds. ``at_work``: it
    runs one statement after another, so that its state is never twice the same and is not compared.
    """

    action: Action
    lock: Lock
    taken_at: Instant
    held: int
    at_work: bool = False

    @property
    def pid(self) -> int:
        """The process."""
        assert self.lock.pid is not None
        return self.lock.pid

    @property
    def who(self) -> str:
        """The process in words."""
        return words.process(self.pid, self.lock.session)

    @property
    def name(self) -> str:
        """The lock in words."""
        return called(self.lock)

    @property
    def backend_start(self) -> Instant | None:
        """When the session began; None where this role may not know."""
        return self.lock.session.backend_start if self.lock.session else None

    @property
    def state_change(self) -> Instant | None:
        """When the session last began or ended a statement; None where this role may not know."""
        return self.lock.session.state_change if self.lock.session else None

    @property
    def sql(self) -> str:
        """What does it without looking first."""
        return f"SELECT pg_{self.action}_backend({self.pid})"


def called(lock: Lock) -> str:
    """Return what to call a lock: its job, or its key."""
    if lock.name is None:
        return f"key {lock.key}"
    return f"{lock.name.text} (maybe)" if lock.name.maybe else lock.name.text


def account(order: Order) -> Iterator[str]:
    """Yield what is known of the process, and what will happen to it, a sentence each."""
    lock, session = order.lock, order.lock.session
    client = f" at {session.client}" if session and session.client else ""
    does = "holds" if lock.granted else "waits for"
    yield f"{order.who}{client} {does} {order.name} in database {lock.database or 'unknown'}{_age(lock)}"
    if order.backend_start is None:
        yield "what it does is hidden from this role (GRANT pg_monitor): only pid, key and mode are compared"
    elif session:
        yield f"it is {_state(session, order)}"
    yield _end(order) if order.action == "terminate" else _cancellation(order)


def _age(lock: Lock) -> str:
    if lock.held:
        return f": {words.age(lock.held)}"
    return "" if lock.waited_seconds is None else f", for {format_duration(lock.waited_seconds)}"


def _state(session: Session, order: Order) -> str:
    if session.state is None or order.state_change is None:
        return session.state or "in an unknown state"
    seconds = max(seconds_between(order.state_change, order.taken_at), 0.0)
    return f"{session.state}, for {format_duration(seconds)}"


def _end(order: Order) -> str:
    session = order.lock.session
    loses = ["its connection"]
    if order.held:
        loses.append(f"its {_locks(order.held)}")
    if session and session.xact_start is not None:
        loses.append("its open transaction")
    if session and session.state == "active":
        loses.append("what it runs")
    waiters = f"; {order.lock.waiters} waiting for this lock" if order.lock.waiters else ""
    return f"ended, it loses {', '.join(loses)}{waiters}"


def _cancellation(order: Order) -> str:
    keeps = f", and keeps its {_locks(order.held)} if of session level" if order.held else ""
    return f"cancelled, its statement fails; its session goes on{keeps}"


def _locks(number: int) -> str:
    return f"{number:,} advisory lock{'' if number == 1 else 's'}"

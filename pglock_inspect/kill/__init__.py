"""The pure half of ``kill``: who is meant, what would happen to it, why it was refused, what came of it.

A holder is terminated. A waiter is cancelled, which a holder cannot be: ``pg_cancel_backend()`` does nothing
to an idle session, and a busy one loses its job and keeps a session-level lock.
"""

from __future__ import annotations

from pglock_inspect.kill.choose import order_for_holder, order_for_process, rollback
from pglock_inspect.kill.order import Action, Order, account
from pglock_inspect.kill.outcome import Result, Seen, as_seen, has_only_gone_on, refusal, result

__all__ = [
    "Action",
    "Order",
    "Result",
    "Seen",
    "account",
    "as_seen",
    "has_only_gone_on",
    "order_for_holder",
    "order_for_process",
    "refusal",
    "result",
    "rollback",
]

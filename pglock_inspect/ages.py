"""How long a lock has been held or waited for: proven bounds, and a best estimate with its source.

Every age is as of the last poll, on the server's clock.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pglock_inspect.model import Held, Instant, seconds_between

if TYPE_CHECKING:
    from pglock_inspect.holds import History
    from pglock_inspect.model import Evidence, HoldGroup, Scope, Session

STAMP_SECONDS = 1.0
"""What a stamp counts in: the lock was taken within that long after it."""

# At the start, after a comment or after another statement, as far as can be told without parsing.
_MAY_LOCK_WITHIN = re.compile(r"advisory|(?:^|\n|;|\*/)[^\S\n]*(?:call|do)\b", re.IGNORECASE)


def age(instant: Instant | None, history: History) -> float | None:
    """Return the seconds from an instant to the last poll; None where the server's clock does not tell.

    An instant after the poll's was read later than the locks, or before the clock stepped back.
    """
    if instant is None:
        return None
    assert history.snapshot is not None
    now = history.snapshot.taken_at
    if instant > now or (history.comparable_from is not None and instant < history.comparable_from):
        return None
    return seconds_between(instant, now)


def _since_poll(poll: Instant, history: History) -> float:
    """Return the seconds from a poll that a sighting tells of to the last one; no step lies between them."""
    assert history.snapshot is not None
    return max(0.0, seconds_between(poll, history.snapshot.taken_at))


def held(group: HoldGroup, history: History, scope: Scope | None = None) -> Held:
    """Return how long a group has been held, given the scope of its locks where that is known."""
    session = group.session
    stamp = _stamp_age(group, history)
    prepared = age(group.prepared.prepared_at, history) if group.prepared else None
    transaction = age(group.xact_start, history) if scope == "transaction" else None
    idle = age(session.state_change, history) if session and session.idle else None

    at_least = idle if prepared is None else prepared
    at_most = None
    stamped = None if stamp is None else stamp + STAMP_SECONDS
    unseen = None if group.sighting.absent_at is None else _since_poll(group.sighting.absent_at, history)
    for bound in (age(group.backend_start, history), unseen, transaction, stamped):
        # What contradicts at_least is told by a clock that was slewed meanwhile.
        if bound is not None and (at_most is None or bound < at_most) and bound >= (at_least or 0.0):
            at_most = bound

    evidence, seconds = _longest(group, history, idle)
    better: tuple[tuple[Evidence, float | None], ...] = (
        ("transaction", transaction),
        ("prepared", prepared),
        ("stamp", stamp),
    )
    for source, told in better:
        if told is not None:
            evidence, seconds = source, told
    if seconds is not None:
        if at_least is not None and seconds < at_least:
            seconds = at_least
        if at_most is not None and seconds > at_most:
            seconds = at_most
    return Held(seconds, at_least, at_most, evidence)


def _longest(group: HoldGroup, history: History, idle: float | None) -> tuple[Evidence, float | None]:
    """Return the longest time for which something else speaks; of equal ones, what proves more."""
    session = group.session
    evidence: Evidence = "none" if idle is None else "session_state"
    longest = idle
    if session and _is_one_plain_statement(session):
        statement = age(session.query_start, history)
        if statement is not None and (longest is None or statement > longest):
            evidence, longest = "statement", statement
    if history.poll > group.sighting.first_poll:
        observed = _since_poll(group.sighting.first_seen, history)
        if longest is None or observed > longest:
            evidence, longest = "observed", observed
    return evidence, longest


def _stamp_age(group: HoldGroup, history: History) -> float | None:
    if group.stamp is None:
        return None
    assert history.snapshot is not None
    # The second that a stamp names may end after the poll.
    return age(Instant(min(group.stamp, history.snapshot.taken_at)), history)


def waited(group: HoldGroup, history: History) -> float | None:
    """Return for how many seconds a group has been waited for; None where nothing tells."""
    assert history.snapshot is not None
    began = group.rows.waitstart
    if began is None:
        sighting = group.sighting
        return None if history.poll == sighting.first_poll else _since_poll(sighting.first_seen, history)
    if history.comparable_from is not None and began < history.comparable_from:
        return None
    return max(0.0, seconds_between(began, history.snapshot.taken_at))


def polls_in_a_row(group: HoldGroup, history: History) -> int:
    """Return in how many polls, up to the last one, a group was seen without a gap."""
    return history.poll - group.sighting.first_poll + 1


def _is_one_plain_statement(session: Session) -> bool:
    """Whether the session runs a statement that, by its text, neither takes a lock nor commits on its way."""
    return (
        session.state == "active" and bool(session.query) and not _MAY_LOCK_WITHIN.search(session.query or "")
    )

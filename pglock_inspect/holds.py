"""How long a lock is held: what one poll after another proves, and no more.

``pg_locks`` tells neither when a lock was granted nor whether it was released and taken again between two
looks. `fold` carries from poll to poll what was seen without a gap; `held` turns that, and what the session
tells of itself, into proven bounds and a best estimate.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.model import (
    Held,
    HoldGroup,
    Instant,
    Session,
    Sighting,
    Snapshot,
    Subject,
    seconds_between,
)
from pglock_inspect.names import NameBook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pglock_inspect.model import Evidence, LockRows, Name, Scope

CLOCK_STEP_SECONDS = 1.0
"""How far the two clocks may drift apart between polls before it is called a step."""

_MOST_APPLICATIONS = 4
_MAY_LOCK_WITHIN = re.compile(r"advisory|^\s*(?:call|do)\b", re.IGNORECASE)


STAMP_SECONDS = 1.0
"""What a stamp counts in: the lock was taken within that long after it."""


class StampMismatch(NamedTuple):
    """A lock that looks like a stamp and does not count as one, with the reason."""

    group: HoldGroup
    key: int
    reason: str


class History(Struct, frozen=True):
    """What all polls so far have shown.

    ``comparable_from`` is the first instant that is sure to be read off the server's clock as it goes now,
    after it had stepped by ``clock_step`` seconds; ``stepped_at_poll`` is the poll that noticed.
    """

    poll: int = 0
    snapshot: Snapshot | None = None
    book: NameBook | None = None
    groups: tuple[HoldGroup, ...] = ()
    comparable_from: Instant | None = None
    clock_step: float | None = None
    stepped_at_poll: int | None = None
    stamp_mismatches: tuple[StampMismatch, ...] = ()


def fold(history: History, snapshot: Snapshot, book: NameBook) -> History:
    """Return the history with one more poll: what is still held, and what is new since the last one."""
    step = _clock_step(history.snapshot, snapshot)
    poll = history.poll + 1
    absent_at = None if step or history.snapshot is None else history.snapshot.taken_at
    same_book = book is history.book
    earlier = () if step else history.groups
    groups, changed, left = _unchanged(earlier, snapshot) if same_book else ([], snapshot.locks, earlier)
    before = _by_process(left, history.snapshot) if history.snapshot else {}
    for rows in changed:
        its_own = before.get(_process(rows, snapshot), ())
        groups += _Fold(rows, snapshot, book, poll, absent_at).groups(its_own, same_book=same_book)
    if step:
        history = replace(history, comparable_from=step[0], clock_step=step[1], stepped_at_poll=poll)
    return replace(
        history, poll=poll, snapshot=snapshot, book=book, groups=tuple(groups), stamp_mismatches=()
    )


def _clock_step(before: Snapshot | None, now: Snapshot) -> tuple[Instant, float] | None:
    """Return the first instant after a step of the server's clock, and by how many seconds it stepped."""
    if before is None:
        return None
    ticked = seconds_between(before.taken_at, now.taken_at)
    at_least, at_most = now.asked_at - before.answered_at, now.answered_at - before.asked_at
    step = ticked - min(max(ticked, at_least), at_most)
    if abs(step) <= CLOCK_STEP_SECONDS:
        return None
    # Wherever between the two polls it stepped, the clock as it went before never showed more than this.
    last_before = before.taken_at + round((at_most + CLOCK_STEP_SECONDS) * 1_000_000)
    return Instant(max(now.taken_at, last_before)), step


def _process(rows: LockRows, snapshot: Snapshot) -> tuple[object, ...]:
    """Return what two polls have to agree on for their rows to be of one process in one mode.

    Without a visible ``backend_start`` the backend number tells a reused pid from the one before.
    """
    prepared = snapshot.prepared.get(rows.virtual_transaction) if rows.pid is None else None
    slot = prepared.gid if prepared else rows.backend_number if rows.pid else rows.virtual_transaction
    return rows.pid, slot, rows.database, rows.objsubid, rows.mode, rows.granted, rows.waitstart


def _unchanged(
    earlier: Sequence[HoldGroup], snapshot: Snapshot
) -> tuple[list[HoldGroup], Sequence[LockRows], Sequence[HoldGroup]]:
    """Return the groups that are as they were, whose rows and session are the very objects of the last poll.

    And the other rows of the snapshot, and the other groups.
    """
    by_rows: dict[LockRows, list[HoldGroup]] = {}
    for group in earlier:
        by_rows.setdefault(group.rows, []).append(group)
    unchanged: list[HoldGroup] = []
    changed: list[LockRows] = []
    for rows in snapshot.locks:
        groups = by_rows.get(rows)
        if groups and all(_is_as_it_was(group, snapshot) for group in groups):
            unchanged += by_rows.pop(rows)
        else:
            changed.append(rows)
    return unchanged, changed, [group for groups in by_rows.values() for group in groups]


def _is_as_it_was(group: HoldGroup, snapshot: Snapshot) -> bool:
    """Whether a group whose rows are the same has the same session; stamps are settled anew in every poll."""
    return (
        group.session is not None
        and group.session is _session_of(group.rows, snapshot)
        and group.stamp is None
        and not group.is_stamp
    )


def _by_process(
    groups: Iterable[HoldGroup], snapshot: Snapshot
) -> Mapping[tuple[object, ...], Sequence[HoldGroup]]:
    by_process: dict[tuple[object, ...], list[HoldGroup]] = {}
    for group in groups:
        by_process.setdefault(_process(group.rows, snapshot), []).append(group)
    return by_process


class _Fold:
    """The fold of the rows of one process in one mode."""

    __slots__ = ("absent_at", "book", "poll", "rows", "session", "snapshot")

    def __init__(
        self, rows: LockRows, snapshot: Snapshot, book: NameBook, poll: int, absent_at: Instant | None
    ) -> None:
        self.rows, self.snapshot, self.book, self.poll, self.absent_at = rows, snapshot, book, poll, absent_at
        self.session = _session_of(rows, snapshot)

    def groups(self, earlier: Sequence[HoldGroup], *, same_book: bool) -> Iterator[HoldGroup]:
        rows, session = self.rows, self.session
        if earlier and self._is_another(earlier[0]):
            earlier = ()
        new_transaction = bool(earlier) and self._is_another_transaction(earlier[0])
        unchanged = all(rows.keys is group.rows.keys for group in earlier)
        unseen = rows.keys
        for group in earlier:
            keys = group.keys if unchanged else group.keys & rows.keys
            if not keys:
                continue
            if same_book and keys == group.keys and _application(session) == _application(group.session):
                subjects = group.subjects
            else:
                subjects = self._subjects(keys)
            ended = _transaction_level(subjects) if new_transaction else frozenset[int]()
            if ended:
                keys -= ended
                subjects = self._subjects(keys)
                yield self._group(ended, Sighting(self.snapshot.taken_at, self.poll), self._subjects(ended))
            unseen = frozenset() if keys == unseen else unseen - keys - ended
            if keys:
                yield self._group(keys, group.sighting, subjects, group)
        if unseen:
            sighting = Sighting(self.snapshot.taken_at, self.poll, self.absent_at)
            yield self._group(unseen, sighting, self._subjects(unseen))

    def _is_another(self, group: HoldGroup) -> bool:
        """Whether the rows belong to another holder, or to another wait of the same one."""
        session = self.session
        if session is None:
            return False
        if _differ(session.backend_start, group.backend_start):
            return True
        return (
            not self.rows.granted
            and group.session is not None
            and _differ(session.query_start, group.session.query_start)
        )

    def _is_another_transaction(self, group: HoldGroup) -> bool:
        return self.session is not None and self.session.xact_start != group.xact_start

    def _subjects(self, keys: frozenset[int]) -> tuple[Subject, ...]:
        database = self.snapshot.databases.get(self.rows.database)
        names = self.book.resolve(keys, self.rows, database, self.session)
        if not names:
            return (Subject(None, keys),)
        named: dict[int, tuple[Name, list[int]]] = {}
        for key, name in names.items():
            named.setdefault(id(name), (name, []))[1].append(key)
        subjects = [Subject(name, frozenset(its_keys)) for name, its_keys in named.values()]
        unnamed = keys - names.keys()
        return (*subjects, Subject(None, unnamed)) if unnamed else tuple(subjects)

    def _group(
        self,
        keys: frozenset[int],
        sighting: Sighting,
        subjects: tuple[Subject, ...],
        before: HoldGroup | None = None,
    ) -> HoldGroup:
        session = self.session
        if session is None and before is not None:
            backend_start, xact_start = before.backend_start, before.xact_start
        else:
            backend_start = session.backend_start if session else None
            xact_start = session.xact_start if session else None
        prepared = (
            self.snapshot.prepared.get(self.rows.virtual_transaction) if self.rows.pid is None else None
        )
        applications = _applications(before.applications if before else (), session, self.snapshot)
        return HoldGroup(
            self.rows, keys, subjects, sighting, session, prepared, backend_start, xact_start, applications
        )


def _session_of(rows: LockRows, snapshot: Snapshot) -> Session | None:
    """Return the session of a lock's process; None where it was gone when sessions were read."""
    session = snapshot.sessions.get(rows.pid) if rows.pid else None
    if session and session.backend_start and session.backend_start > snapshot.taken_at:
        return None  # the pid has been reused since the locks were read
    return session


def _differ(one: Instant | None, other: Instant | None) -> bool:
    return one is not None and other is not None and one != other


def _application(session: Session | None) -> str | None:
    return session.application_name if session else None


def _applications(before: tuple[str, ...], session: Session | None, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the names before, and the present one where the lock is sure to outlive transactions."""
    name = _application(session)
    if session is None or session.state != "idle" or not name or name in before:
        return before
    idle_before = session.state_change is not None and session.state_change <= snapshot.taken_at
    return (*before, name) if idle_before and len(before) < _MOST_APPLICATIONS else before


def _transaction_level(subjects: tuple[Subject, ...]) -> frozenset[int]:
    return frozenset[int]().union(*(s.keys for s in subjects if s.name and s.name.scope == "transaction"))


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


def held(group: HoldGroup, history: History, scope: Scope | None = None) -> Held:
    """Return how long a group has been held, given the scope of its locks where that is known."""
    session = group.session
    stamp = _stamp_age(group, history)
    prepared = age(group.prepared.prepared_at, history) if group.prepared else None
    transaction = age(group.xact_start, history) if scope == "transaction" else None
    idle = age(session.state_change, history) if session and session.idle else None

    at_least = idle if prepared is None else prepared
    at_most = age(group.backend_start, history)
    stamped = None if stamp is None else stamp + STAMP_SECONDS
    for bound in (age(group.sighting.absent_at, history), transaction, stamped):
        if bound is not None and (at_most is None or bound < at_most):
            at_most = bound
    if at_least is not None and at_most is not None and at_most < at_least:
        at_most = at_least  # the clock was slewed meanwhile, or a poll saw the lock on its way to be prepared

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
        observed = age(group.sighting.first_seen, history)
        if observed is not None and (longest is None or observed > longest):
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
        if history.poll == group.sighting.first_poll:
            return None
        began = group.sighting.first_seen
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

"""Holds: what was seen of each lock in one poll after another without a gap, and no more.

``pg_locks`` tells neither when a lock was granted nor whether it was released and taken again between two
looks. Here is carried from poll to poll what is the same hold as far as can be known, and since when no poll
speaks against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.model import HoldGroup, Instant, Session, Sighting, Snapshot, Subject, seconds_between
from pglock_inspect.names import NameBook

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.model import LockRows, Name

CLOCK_STEP_SECONDS = 1.0
"""How far the two clocks may drift apart between polls before it is called a step."""

_MOST_APPLICATIONS = 4
_RECOVERED = "-1/"


class StampMismatch(NamedTuple):
    """A lock that looks like a stamp and does not count as one, with the reason."""

    group: HoldGroup
    key: int
    reason: str


class Settled(NamedTuple):
    """How the stamps of one process in one database were settled in the last poll.

    ``relevant`` are, of all keys in ``key_sets``, those that may be stamps or what stamps are about.
    """

    groups: tuple[HoldGroup, ...]
    mismatches: tuple[StampMismatch, ...]
    key_sets: Mapping[tuple[int, bool], frozenset[int]]
    relevant: frozenset[int]


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
    settled: Mapping[object, Settled] = {}


def fold(history: History, snapshot: Snapshot, book: NameBook) -> History:
    """Return the history with one more poll: what is still held, and what is new since the last one."""
    if history.snapshot and history.snapshot.server.started_at != snapshot.server.started_at:
        history = History()  # another server, or this one restarted: nothing of before is held
    history = rename(history, book)
    step = _clock_step(history.snapshot, snapshot)
    poll = history.poll + 1
    absent_at = None if step or history.snapshot is None else history.snapshot.taken_at
    groups, changed, left = _unchanged(() if step else history.groups, snapshot, history)
    before = _by_process(left)
    for rows in changed:
        its_own = before.get(_process(rows, rows.pid), ())
        groups += _Fold(rows, snapshot, book, history, absent_at).groups(its_own)
    if step:
        history = replace(
            history,
            comparable_from=max(step[0], history.comparable_from or step[0]),
            clock_step=step[1],
            stepped_at_poll=poll,
            settled={},
        )
    return replace(
        history, poll=poll, snapshot=snapshot, book=book, groups=tuple(groups), stamp_mismatches=()
    )


def rename(history: History, book: NameBook) -> History:
    """Return the history with the names of a book that knows more, or less, than before."""
    if history.snapshot is None or book is history.book:
        return history
    groups = tuple(part for group in history.groups for part in _renamed(group, history, book))
    return replace(history, book=book, groups=groups, stamp_mismatches=())


def _renamed(group: HoldGroup, history: History, book: NameBook) -> Iterator[HoldGroup]:
    assert history.snapshot is not None
    subjects = _subjects(group.keys, group.rows, group.session, history.snapshot, book)
    if [(s.name, s.keys) for s in subjects] == [(s.name, s.keys) for s in group.subjects]:
        yield group
        return
    began, seen = group.xact_start, group.sighting.first_seen
    anew = _transaction_level(subjects) if began is not None and began > seen else frozenset[int]()
    for keys in (anew, group.keys - anew):
        if keys:
            its_own = tuple(Subject(s.name, s.keys & keys) for s in subjects if s.keys & keys)
            sighting = Sighting(history.snapshot.taken_at, history.poll) if keys is anew else group.sighting
            yield replace(group, keys=keys, subjects=its_own, sighting=sighting)


def _subjects(
    keys: frozenset[int], rows: LockRows, session: Session | None, snapshot: Snapshot, book: NameBook
) -> tuple[Subject, ...]:
    names = book.resolve(keys, rows, snapshot.databases.get(rows.database), session)
    if not names:
        return (Subject(None, keys),)
    named: dict[int, tuple[Name, list[int]]] = {}
    for key, name in names.items():
        named.setdefault(id(name), (name, []))[1].append(key)
    subjects = [Subject(name, frozenset(its_keys)) for name, its_keys in named.values()]
    unnamed = keys.difference(names)
    return (*subjects, Subject(None, unnamed)) if unnamed else tuple(subjects)


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


def _process(rows: LockRows, pid: int | None) -> tuple[object, ...]:
    """Return what two polls have to agree on for their rows to be of one process in one mode.

    Without a visible ``backend_start`` the backend number tells a reused pid from the one before. A prepared
    transaction, without a pid, keeps the virtual transaction of the session that prepared it.
    """
    slot = rows.backend_number if pid else rows.virtual_transaction
    return pid, slot, rows.database, rows.objsubid, rows.mode, rows.granted, rows.waitstart


def _unchanged(
    earlier: Sequence[HoldGroup], snapshot: Snapshot, history: History
) -> tuple[list[HoldGroup], Sequence[LockRows], Sequence[HoldGroup]]:
    """Return the groups whose rows are the very objects of the last poll, while their sessions go on.

    And the other rows of the snapshot, and the other groups.
    """
    by_rows: dict[LockRows, list[HoldGroup]] = {}
    for group in earlier:
        by_rows.setdefault(group.rows, []).append(group)
    unchanged: list[HoldGroup] = []
    changed: list[LockRows] = []
    for rows in snapshot.locks:
        groups = by_rows.get(rows)
        session = _session_of(rows, snapshot, history.snapshot) if groups else None
        if groups and session and _goes_on(groups, session):
            unchanged += (
                group if group.session is session else replace(group, session=session)
                for group in by_rows.pop(rows)
            )
        else:
            changed.append(rows)
    return unchanged, changed, [group for groups in by_rows.values() for group in groups]


def _goes_on(groups: Sequence[HoldGroup], session: Session) -> bool:
    """Whether of the session of some groups nothing but its state has changed, and nothing is to be noted."""
    before = groups[0].session
    if before is not session and (
        before is None
        or not groups[0].rows.granted
        or before.backend_start != session.backend_start
        or before.xact_start != session.xact_start
        or before.application_name != session.application_name
    ):
        return False
    name = session.application_name
    return not name or session.state != "idle" or all(name in group.applications for group in groups)


def _by_process(groups: Iterable[HoldGroup]) -> Mapping[tuple[object, ...], Sequence[HoldGroup]]:
    """Return the groups by process, and by the transaction that the process may have prepared since."""
    by_process: dict[tuple[object, ...], list[HoldGroup]] = {}
    for group in groups:
        for pid in {group.rows.pid, None}:
            by_process.setdefault(_process(group.rows, pid), []).append(group)
    return by_process


class _Fold:
    """The fold of the rows of one process in one mode."""

    __slots__ = ("absent_at", "book", "poll", "rows", "session", "snapshot")

    def __init__(
        self, rows: LockRows, snapshot: Snapshot, book: NameBook, history: History, absent_at: Instant | None
    ) -> None:
        self.rows, self.snapshot, self.book, self.poll = rows, snapshot, book, history.poll + 1
        self.session = _session_of(rows, snapshot, history.snapshot)
        # What is recovered after a crash was held before it, as something that the last poll saw otherwise.
        self.absent_at = None if rows.virtual_transaction.startswith(_RECOVERED) else absent_at

    def groups(self, earlier: Sequence[HoldGroup]) -> Iterator[HoldGroup]:
        rows, session = self.rows, self.session
        unseen, unsure = rows.keys, frozenset[int]()
        for group in earlier:
            keys = group.keys if rows.keys is group.rows.keys else group.keys & rows.keys
            if not keys:
                continue
            if self._is_another(group):
                if not (group.session and group.session.backend_start):
                    unsure |= keys  # it may have been this one already that the last poll saw
                continue
            if len(keys) == len(group.keys) and _application(session) == _application(group.session):
                subjects = group.subjects
            else:
                subjects = self._subjects(keys)
            new_transaction = self._is_another_transaction(group)
            ended = _transaction_level(subjects) if new_transaction else frozenset[int]()
            if ended:
                keys -= ended
                subjects = self._subjects(keys)
                yield self._group(ended, self._sighting(None), self._subjects(ended))
            unseen = frozenset() if len(keys) == len(unseen) else unseen - keys - ended
            if keys:
                of_same_holder = group.rows.pid == rows.pid
                sighting = group.sighting if of_same_holder else self._sighting(group.sighting.absent_at)
                yield self._group(keys, sighting, subjects, group)
        for keys, absent_at in ((unseen & unsure, None), (unseen - unsure, self.absent_at)):
            if keys:
                yield self._group(keys, self._sighting(absent_at), self._subjects(keys))

    def _sighting(self, absent_at: Instant | None) -> Sighting:
        return Sighting(self.snapshot.taken_at, self.poll, absent_at)

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
        return _subjects(keys, self.rows, self.session, self.snapshot, self.book)

    def _group(
        self,
        keys: frozenset[int],
        sighting: Sighting,
        subjects: tuple[Subject, ...],
        before: HoldGroup | None = None,
    ) -> HoldGroup:
        session = self.session
        backend_start = session.backend_start if session else None
        xact_start = session.xact_start if session else None
        if before is not None:
            backend_start = backend_start or before.backend_start
            xact_start = xact_start if session else before.xact_start
        prepared = (
            self.snapshot.prepared.get(self.rows.virtual_transaction) if self.rows.pid is None else None
        )
        applications = _applications(before.applications if before else (), session, self.snapshot)
        return HoldGroup(
            self.rows, keys, subjects, sighting, session, prepared, backend_start, xact_start, applications
        )


def _session_of(rows: LockRows, snapshot: Snapshot, before: Snapshot | None) -> Session | None:
    """Return the session of a lock's process; None where it was gone when sessions were read."""
    session = snapshot.sessions.get(rows.pid) if rows.pid else None
    if session is None or session.backend_start is None or session.backend_start <= snapshot.taken_at:
        return session
    # The pid has been reused since the locks were read, or the clock stepped back since the session began.
    known = before.sessions.get(session.pid) if before else None
    return session if known and known.backend_start == session.backend_start else None


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

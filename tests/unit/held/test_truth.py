"""What is reported of a lock's age is true, whatever sessions do between and during polls."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from pglock_inspect.holds import History, fold, held, waited
from pglock_inspect.model import Held, Name, seconds_between
from pglock_inspect.names import NameBook
from pglock_inspect.stamps import settle_stamps
from tests.unit.held.programs import IN_TRANSACTIONS, PROGRAMS, Step, run
from tests.unit.held.simulator import instant_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pglock_inspect.model import Database, HoldGroup, Instant, LockRows, Session, Snapshot
    from tests.unit.held.poller import HoldId, Observation, Truth


class _KnownScope:
    """A source of names that knows which key is taken at transaction level only."""

    def lookup(
        self,
        keys: frozenset[int],
        rows: LockRows,
        database: Database | None,  # noqa: ARG002
        session: Session | None,  # noqa: ARG002
    ) -> Mapping[int, Name]:
        objsubid, packed, mode = IN_TRANSACTIONS
        found = (rows.objsubid, rows.mode) == (objsubid, mode) and packed in keys
        return {packed: Name("report", "config", scope="transaction")} if found else {}


BOOK = NameBook(_KnownScope())


class Trial:
    """Polls what a program does, and checks what is concluded from each poll."""

    def __init__(self) -> None:
        self.history = self.history_of_other_order = History()
        self.before: Observation | None = None
        self.seen: list[tuple[int, int | None, Instant]] = []

    def poll(self, observation: Observation) -> None:
        now = observation.snapshot
        self.history = _folded(self.history, now)
        if self.history.poll == 1:  # of a server that has just started
            self.before, self.seen = None, []
        self.history_of_other_order = _folded(self.history_of_other_order, _in_another_order(now))
        assert _conclusions(self.history) == _conclusions(self.history_of_other_order)

        found = [(group, hold) for group in self.history.groups if group.rows.granted for hold in _ids(group)]
        assert Counter(hold for _, hold in found) == Counter(observation.holds.keys())
        for group, hold in found:
            truth = observation.holds[hold]
            self._check_bounds(group, hold, truth)
            self._check_stamp(group, hold, truth)
            self._check_holder(group)
            if self.history.clock_step is None:
                self._check_that_nothing_is_held_back(group, hold)
        self.seen += ((self.history.poll, *holder) for group, _ in found if (holder := _holder(group)))
        self.before = observation

    def _check_bounds(self, group: HoldGroup, hold: HoldId, truth: Truth) -> None:
        told, proven = self._held(group, hold), self._held(replace(group, stamp=None), hold)
        assert proven.at_least is None or proven.at_least <= truth.age
        assert proven.at_most is None or truth.age <= proven.at_most
        assert told.at_least == proven.at_least
        if told.seconds is None:
            assert told.evidence == "none"
            return
        assert told.seconds >= (told.at_least or 0)
        for at_most in (told.at_most, proven.at_most):
            assert at_most is None or told.seconds <= at_most

    def _check_stamp(self, group: HoldGroup, hold: HoldId, truth: Truth) -> None:
        """The true stamp counts where nothing stands in its way; a forged one may, within what is proven."""
        comparable = self.history.comparable_from
        counts = truth.stamp is not None and group.stamp == instant_of(truth.stamp)
        told = self._held(group, hold)
        if counts:
            assert told.evidence == "stamp"
            assert told.at_most is not None
            assert truth.age <= told.at_most
        elif truth.stamp is not None and truth.rivals == 0:
            assert comparable is not None
            assert instant_of(truth.stamp) < comparable

    def _check_holder(self, group: HoldGroup) -> None:
        """A hold began after any other backend was seen to have its pid."""
        pid, backend_start = _holder(group) or (None, None)
        for poll, other_pid, other_start in self.seen:
            if pid == other_pid and backend_start != other_start:
                assert group.sighting.first_poll > poll

    def _check_that_nothing_is_held_back(self, group: HoldGroup, hold: HoldId) -> None:
        """With a clock that never stepped, what a row shows is used, and what the last poll did not show."""
        assert self.history.snapshot
        now, session, told = self.history.snapshot.taken_at, group.session, self._held(group, hold)
        if session and session.backend_start:
            assert told.at_most is not None
            assert told.at_most <= seconds_between(session.backend_start, now)
        if session and session.idle and session.state_change and session.state_change <= now:
            assert told.at_least == seconds_between(session.state_change, now)
        if group.rows.pid and self.before and hold not in self.before.holds:
            assert told.at_most is not None
            assert told.at_most <= seconds_between(self.before.snapshot.taken_at, now)

    def _held(self, group: HoldGroup, hold: HoldId) -> Held:
        (subject,) = (each for each in group.subjects if hold[3] in each.keys)
        return held(group, self.history, subject.name.scope if subject.name else None)


def _folded(history: History, snapshot: Snapshot) -> History:
    return settle_stamps(fold(history, snapshot, BOOK))


def _holder(group: HoldGroup) -> tuple[int, Instant] | None:
    """Return the pid and the start of a backend that is known to hold a group."""
    session = group.session
    return (session.pid, session.backend_start) if session and session.backend_start else None


def _ids(group: HoldGroup) -> Iterator[HoldId]:
    assert sorted(key for subject in group.subjects for key in subject.keys) == sorted(group.keys)
    return (_id(group, key) for key in group.keys)


def _id(group: HoldGroup, key: int) -> HoldId:
    rows = group.rows
    return rows.pid or rows.virtual_transaction, rows.database, rows.objsubid, key, rows.mode


def _in_another_order(snapshot: Snapshot) -> Snapshot:
    """The same, back to front, and nothing is the object that it was in the poll before."""
    return replace(
        snapshot,
        locks=tuple(replace(rows, keys=frozenset([*rows.keys])) for rows in reversed(snapshot.locks)),
        sessions={pid: replace(session) for pid, session in reversed([*snapshot.sessions.items()])},
    )


def _conclusions(history: History) -> object:
    """Everything that is told of each lock, and of the stamps that do not count."""
    told = {
        (group.rows.granted, _id(group, key)): (
            held(group, history, subject.name.scope if subject.name else None),
            waited(group, history),
            group.sighting,
            group.stamp,
            group.is_stamp,
        )
        for group in history.groups
        for subject in group.subjects
        for key in subject.keys
    }
    return told, {(_id(group, key), reason) for group, key, reason in history.stamp_mismatches}


def check(program: list[Step]) -> None:
    trial = Trial()
    for observation in run(program):
        trial.poll(observation)


@settings(max_examples=200, deadline=None)
@given(PROGRAMS)
def test_what_is_reported_of_an_age_is_true(program: list[Step]) -> None:
    check(program)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(PROGRAMS)
def test_what_is_reported_of_an_age_is_true_at_length(program: list[Step]) -> None:
    check(program)

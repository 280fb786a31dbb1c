"""What is reported of a lock's age is true, whatever sessions do between and during polls."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from pglock_inspect.ages import held, waited
from pglock_inspect.holds import History, fold
from pglock_inspect.model import Held, Name, seconds_between
from pglock_inspect.names import NameBook
from pglock_inspect.stamps import settle_stamps
from tests.unit.held.programs import IN_TRANSACTIONS, Step, programs, run
from tests.unit.held.simulator import SECOND, Key, instant_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pglock_inspect.model import Database, HoldGroup, Instant, LockRows, Scope, Session, Snapshot
    from tests.unit.held.poller import HoldId, Observation, Truth

    Holder = tuple[str, Instant | None, Instant | None]
    """What is known of one: a backend's number and start, and its transaction where that holds the lock."""


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
        self.holders: list[tuple[int, HoldId, Holder]] = []

    def poll(self, observation: Observation) -> None:
        now = observation.snapshot
        self.history = _folded(self.history, now)
        self.history_of_other_order = _folded(self.history_of_other_order, _in_another_order(now))
        assert _conclusions(self.history) == _conclusions(self.history_of_other_order)
        if self.before and self.before.snapshot.server.started_at != now.server.started_at:
            assert all(group.sighting.first_seen == now.taken_at for group in self.history.groups)
            self.before, self.holders = None, []

        found = [(group, hold) for group in self.history.groups if group.rows.granted for hold in _ids(group)]
        assert Counter(hold for _, hold in found) == Counter(observation.holds.keys())
        for group, hold in found:
            truth = observation.holds[hold]
            self._check_bounds(group, hold, truth)
            self._check_stamp(group, hold, truth)
            self._check_holder(group, hold)
            self._check_session(group, truth, observation)
            if self.history.clock_step is None:
                self._check_that_nothing_is_held_back(group, hold)
        self.holders += ((self.history.poll, hold, _holder(group, hold)) for group, hold in found)
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
        if group.is_stamp and group.sighting.absent_at is not None:
            assert instant_of(Key(*hold[2:])) > group.sighting.absent_at - SECOND
        if group.stamp is not None:
            assert self.history.snapshot
            assert truth.rivals == 0
            told, proven = self._held(group, hold), self._held(replace(group, stamp=None), hold)
            claimed = seconds_between(group.stamp, self.history.snapshot.taken_at)
            assert claimed >= (-1 if proven.at_least is None else proven.at_least)
            assert proven.at_most is None or claimed <= proven.at_most + 1
            assert told.evidence == "stamp"
            if truth.stamp and group.stamp == instant_of(truth.stamp):
                assert told.at_most is not None
                assert truth.age <= told.at_most
        elif truth.stamp and truth.rivals == 0:
            assert comparable is not None
            assert instant_of(truth.stamp) < comparable

    def _check_holder(self, group: HoldGroup, hold: HoldId) -> None:
        """A hold began after any poll that saw it held by somebody else, as far as both are known."""
        holder = _holder(group, hold)
        for poll, other_hold, other in self.holders:
            known = [pair for pair in zip(holder, other, strict=True) if None not in pair]
            if other_hold == hold and any(now != then for now, then in known):
                assert group.sighting.first_poll > poll

    def _check_session(self, group: HoldGroup, truth: Truth, observation: Observation) -> None:
        """What a session shows of itself is used, wherever it is sure whose row it is."""
        pid, session = group.rows.pid, group.session
        if pid and observation.seen.get(pid) == truth.holder:
            known = self.before is not None and self.before.seen.get(pid) == truth.holder
            backend_start = observation.snapshot.sessions[pid].backend_start
            if known or backend_start is None or backend_start <= observation.snapshot.taken_at:
                assert session is observation.snapshot.sessions[pid]
        else:
            assert session is None or session.backend_start is None

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
        return held(group, self.history, _scope(group, hold[3]))


def _folded(history: History, snapshot: Snapshot) -> History:
    return settle_stamps(fold(history, snapshot, BOOK))


def _scope(group: HoldGroup, key: int) -> Scope | None:
    (subject,) = (subject for subject in group.subjects if key in subject.keys)
    return subject.name.scope if subject.name else None


def _holder(group: HoldGroup, hold: HoldId) -> Holder:
    session = group.session
    if session is None:
        return group.rows.backend_number, None, None
    transaction_level = _scope(group, hold[3]) == "transaction"
    return group.rows.backend_number, session.backend_start, session.xact_start if transaction_level else None


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
            held(group, history, _scope(group, key)),
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


KEY, MINUTE = Key(1, 42), 60 * SECOND


def step(action: str, pause: int = MINUTE, *, key: Key = KEY, number: int = 1) -> Step:
    return Step(action, 0, key, pause, number)


SELDOM = {
    # A poll that does not show the session may have seen the next one already.
    "a backend takes over from another": [
        *(step("take"), step("poll", number=2), step("take over"), step("run", 0)),
        *(step("poll", number=1), step("poll", number=2)),
    ],
    "a prepared transaction is recovered after a crash": [
        *(step("begin"), step("take in transaction"), step("poll", number=2)),
        *(step("prepare"), step("crash", number=0), step("poll", number=2)),
    ],
    # What the first era of the clock left behind comes within reach again.
    "a clock steps twice": [
        *(step("query"), step("poll", number=2), step("step of the clock", number=5), step("take")),
        *(step("poll", number=2), step("step of the clock", number=0), step("poll", number=2)),
        step("poll", 7200 * SECOND, number=2),
    ],
}


@pytest.mark.parametrize("program", SELDOM.values(), ids=SELDOM)
def test_what_chance_seldom_draws(program: list[Step]) -> None:
    check(program)


@settings(max_examples=200, deadline=None)
@given(programs())
def test_what_is_reported_of_an_age_is_true(program: list[Step]) -> None:
    check(program)


@pytest.mark.slow
@settings(max_examples=2000, deadline=None)
@given(programs())
def test_what_is_reported_of_an_age_is_true_at_length(program: list[Step]) -> None:
    check(program)

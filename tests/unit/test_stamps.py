from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from pglock_inspect import stamps
from pglock_inspect.ages import held
from pglock_inspect.findings import Scene
from pglock_inspect.holds import History, fold
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Held, Instant, LockRows
from pglock_inspect.names import NameBook
from pglock_inspect.stamps import settle_stamps
from tests.support.polls import SERVER, SHARE, at, lock_rows, packed, prepared, session, snapshot
from tests.support.reports import NOW

if TYPE_CHECKING:
    from pglock_inspect.keys import Value
    from pglock_inspect.model import HoldGroup, Snapshot

BOOK = NameBook()
SECOND_OF_NOW = 946_684_800 + NOW // 1_000_000
FRACTION = NOW % 1_000_000 / 1e6
"""The clock shows so much more than a whole second at the whole seconds of a test."""

HOLDER = session(1, "active", backend_start=5)


def stamp(value: Value | AdvisoryKey, seconds: int, pid: int | None = 1, **more: str) -> LockRows:
    """The stamp that says of a lock that it was taken then."""
    low = packed(value) & 0xFFFFFFFF
    rows = lock_rows(pid, (0, 0), mode=SHARE, transaction=more.get("transaction"))
    return replace(rows, keys=frozenset({low << 32 | (SECOND_OF_NOW + seconds) & 0xFFFFFFFF}))


def both(*rows: LockRows) -> LockRows:
    """Rows of one kind as the server shows them: as one."""
    return replace(rows[0], keys=frozenset[int]().union(*(each.keys for each in rows)))


def polled(*snapshots: Snapshot) -> History:
    history = History()
    for each in snapshots:
        history = settle_stamps(fold(history, each, BOOK))
    return history


def shown(history: History) -> list[HoldGroup]:
    return [*Scene(history).groups]


def told(history: History) -> Held:
    """What is told of the only lock that is shown."""
    (group,) = shown(history)
    return held(group, history)


def reasons(history: History) -> list[str]:
    return [mismatch.reason for mismatch in history.stamp_mismatches]


def test_a_stamp_tells_when_its_lock_was_taken_to_a_second() -> None:
    history = polled(snapshot(100, lock_rows(1, 42), stamp(42, 10), sessions=[HOLDER]))
    seconds = 90 + FRACTION
    assert told(history) == Held(seconds, None, seconds + 1, "stamp")
    assert reasons(history) == []


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        -1957215242,
        1 << 31,
        7 << 32 | 42,
        -(1 << 63),
        (1 << 63) - 1,
        (7, 42),
        (7, -42),
        (-1, -(1 << 31)),
        AdvisoryKey(3, 42, 4),
    ],
)
def test_a_stamp_is_about_a_key_of_any_form(value: Value | AdvisoryKey) -> None:
    key = value if isinstance(value, AdvisoryKey) else AdvisoryKey.from_value(value)
    lock = replace(lock_rows(1, 1), objsubid=key.objsubid, keys=frozenset({packed(key)}))
    history = polled(snapshot(100, lock, stamp(key, 10), sessions=[HOLDER]))
    assert told(history).evidence == "stamp"


def test_a_stamp_may_be_about_a_shared_lock_of_two_keys() -> None:
    lock = lock_rows(1, (7, 42), mode=SHARE)
    history = polled(snapshot(100, both(lock, stamp((7, 42), 10)), sessions=[HOLDER]))
    assert [group.keys for group in shown(history)] == [lock.keys]
    assert told(history).evidence == "stamp"


@pytest.mark.parametrize("years", [20, 90, 200], ids=["after 2038", "after 2106", "after 2162"])
def test_the_second_of_a_stamp_is_meant_modulo_2_to_the_32(years: int) -> None:
    later = years * 31_557_600
    server = replace(SERVER, started_at=at(later))
    holder = session(1, "active", backend_start=later + 5)
    locks = lock_rows(1, 42), stamp(42, later + 10)
    assert told(polled(snapshot(later + 100, *locks, sessions=[holder], server=server))).seconds == (
        90 + FRACTION
    )


def test_of_what_is_proven_a_stamp_can_only_narrow_the_upper_bound() -> None:
    idle = replace(HOLDER, state="idle", state_change=at(20))
    locks = lock_rows(1, 42), stamp(42, 10)
    assert told(polled(snapshot(100, *locks, sessions=[idle]))) == Held(
        90 + FRACTION, 80, 91 + FRACTION, "stamp"
    )
    just_connected = replace(idle, backend_start=at(10.2))
    assert told(polled(snapshot(100, *locks, sessions=[just_connected]))) == Held(89.8, 80, 89.8, "stamp")


def test_a_stamp_of_this_second_does_not_lie_ahead() -> None:
    """The locks are read a moment after the clock."""
    history = polled(snapshot(10, lock_rows(1, 42), stamp(42, 11), sessions=[HOLDER]))
    assert told(history) == Held(0.0, None, 1.0, "stamp")


@pytest.mark.parametrize(
    ("locks", "reason"),
    [
        ([stamp(42, 10)], "the session holds no lock that it could be about"),
        ([lock_rows(1, 43), stamp(42, 10)], "the session holds no lock that it could be about"),
        (
            [lock_rows(1, 42, 7 << 32 | 42), stamp(42, 10)],
            "2 locks of the session end in these 32 bits",
        ),
        (
            [lock_rows(1, 42), lock_rows(1, (7, 42)), lock_rows(1, 42, mode=SHARE), stamp(42, 10)],
            "3 locks of the session end in these 32 bits",
        ),
        ([lock_rows(1, 42), both(stamp(42, 10), stamp(42, 20))], "2 stamps are about one lock"),
        ([stamp(SECOND_OF_NOW + 10, 10)], "it could be about itself only"),
        ([lock_rows(1, 42), stamp(42, 102)], "it names a second to come"),
        ([lock_rows(1, 42), stamp(42, 86_400)], "it names a second to come"),
        ([lock_rows(1, 42), stamp(42, 3)], "its time contradicts what is proven"),  # not connected yet
    ],
)
def test_a_stamp_that_does_not_count_is_told_of(locks: list[LockRows], reason: str) -> None:
    history = polled(snapshot(100, *locks, sessions=[HOLDER]))
    assert {*reasons(history)} == {reason}
    assert not any(group.stamp or group.is_stamp for group in history.groups)
    assert {key for group in shown(history) for key in group.keys} == {k for rows in locks for k in rows.keys}


def test_a_stamp_cannot_be_younger_than_what_an_idle_session_proves() -> None:
    idle = replace(HOLDER, state="idle", state_change=at(50))
    history = polled(snapshot(100, lock_rows(1, 42), stamp(42, 51), sessions=[idle]))
    assert reasons(history) == ["its time contradicts what is proven"]
    assert history.groups[0].stamp is None


def test_a_stamp_cannot_be_older_than_a_poll_without_its_lock() -> None:
    history = polled(
        snapshot(50, sessions=[HOLDER]), snapshot(100, lock_rows(1, 42), stamp(42, 48), sessions=[HOLDER])
    )
    assert reasons(history) == ["it was taken later than it says"]


def test_a_stamp_cannot_be_older_than_a_poll_without_it() -> None:
    lock = lock_rows(1, 42)
    history = polled(
        snapshot(50, lock, sessions=[HOLDER]), snapshot(100, lock, stamp(42, 48), sessions=[HOLDER])
    )
    assert reasons(history) == ["it was taken later than it says"]


def test_a_stamp_from_before_a_step_of_the_clock_does_not_count() -> None:
    locks = lock_rows(1, 42), stamp(42, 10)
    before = snapshot(100, *locks, sessions=[HOLDER])
    assert reasons(polled(before, snapshot(3700, *locks, clock=102, sessions=[HOLDER]))) == [
        "the server's clock has stepped since"
    ]
    alone = polled(snapshot(100, locks[1]), snapshot(3700, locks[1], clock=102))
    assert reasons(alone) == []  # nothing speaks for a stamp


@pytest.mark.parametrize(
    "rows",
    [
        lock_rows(1, (42, 7), mode=SHARE),  # in 1970
        replace(stamp(42, 10), mode="ExclusiveLock"),
        replace(stamp(42, 10), objsubid=1),
        replace(stamp(42, 10), granted=False),
        stamp(42, -1),  # before the server started
    ],
)
def test_other_locks_are_not_suspected_to_be_stamps(rows: LockRows) -> None:
    history = polled(snapshot(100, lock_rows(1, 42), rows, sessions=[HOLDER]))
    assert reasons(history) == []
    assert len(shown(history)) == 2
    assert not any(group.stamp or group.is_stamp for group in history.groups)


def test_a_pair_of_numbers_is_not_suspected_where_other_sessions_are_hidden() -> None:
    hidden = session(1, None, backend_start=None)
    assert reasons(polled(snapshot(100, lock_rows(1, (42, 7), mode=SHARE), sessions=[hidden]))) == []
    history = polled(snapshot(100, lock_rows(1, 42), lock_rows(1, (42, 7), mode=SHARE), sessions=[hidden]))
    assert [held(group, history).evidence for group in shown(history)] == ["none", "none"]


def test_a_stamp_is_about_a_lock_of_its_own_session_and_database() -> None:
    other = session(2, "active", backend_start=5)
    sessions = [HOLDER, other]
    of_another_session = polled(snapshot(100, lock_rows(1, 42), stamp(42, 10, 2), sessions=sessions))
    assert reasons(of_another_session) == ["the session holds no lock that it could be about"]
    elsewhere = replace(stamp(42, 10), database=6)
    in_another_database = polled(snapshot(100, lock_rows(1, 42), elsewhere, sessions=[HOLDER]))
    assert reasons(in_another_database) == ["the session holds no lock that it could be about"]


def test_a_prepared_transaction_keeps_its_stamp_over_a_restart() -> None:
    locks = (
        lock_rows(None, 42, transaction="-1/700"),
        stamp(42, -500, None, transaction="-1/700"),
    )
    history = polled(snapshot(100, *locks, prepared={"-1/700": prepared("transfer", -499)}))
    assert told(history) == Held(600 + FRACTION, 599, 601 + FRACTION, "stamp")


def test_a_stamp_counts_as_long_as_it_is_about_one_lock() -> None:
    """Whatever else the session takes and releases."""
    one, two, its_stamp = lock_rows(1, 42), lock_rows(1, 42, 7 << 32 | 42), stamp(42, 10)
    history = polled(snapshot(100, one, its_stamp, sessions=[HOLDER]))
    assert told(history).evidence == "stamp"
    history = settle_stamps(fold(history, snapshot(102, two, its_stamp, sessions=[HOLDER]), BOOK))
    assert reasons(history) == ["2 locks of the session end in these 32 bits"]
    assert not any(group.stamp or group.is_stamp for group in history.groups)
    history = settle_stamps(fold(history, snapshot(104, one, its_stamp, sessions=[HOLDER]), BOOK))
    assert told(history).evidence == "stamp"
    assert reasons(history) == []
    history = settle_stamps(fold(history, snapshot(106, one, sessions=[HOLDER]), BOOK))
    assert told(history).evidence == "observed"


def test_what_the_next_poll_proves_counts_against_a_stamp_that_counted() -> None:
    """The session came to rest after its locks were read, before it was read itself."""
    idle = replace(HOLDER, state="idle", state_change=at(100.001), application_name=None)
    locks = lock_rows(1, 42), stamp(42, 101)
    before = polled(snapshot(100, *locks, sessions=[idle]))
    assert told(before).evidence == "stamp"
    assert reasons(settle_stamps(fold(before, snapshot(102, *locks, sessions=[idle]), BOOK))) == [
        "its time contradicts what is proven"
    ]


def test_the_keys_of_a_session_are_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in every poll, whatever else the session does."""
    many = replace(lock_rows(1, 1), keys=frozenset(range(1000)))
    its_stamp = stamp(42, 10)
    history = polled(snapshot(100, many, its_stamp, sessions=[HOLDER]))
    assert [group.keys for group in shown(history) if group.stamp] == [frozenset({42})]

    look_through = Mock(wraps=stamps._relevant)
    monkeypatch.setattr(stamps, "_relevant", look_through)
    for number in range(1, 4):
        changed = replace(HOLDER, query=f"SELECT {number}", query_start=at(100 + number))
        rows = [replace(rows, virtual_transaction=f"1/{number}") for rows in (many, its_stamp)]
        history = settle_stamps(fold(history, snapshot(100 + number, *rows, sessions=[changed]), BOOK))
        assert [group.keys for group in shown(history) if group.stamp] == [frozenset({42})]
    look_through.assert_not_called()
    history = settle_stamps(fold(history, snapshot(110, lock_rows(1, 42), its_stamp), BOOK))
    look_through.assert_called_once()


def test_what_did_not_change_is_told_by_the_same_groups() -> None:
    locks, sessions = (lock_rows(1, 42, 43), stamp(42, 10)), [HOLDER]
    before = polled(snapshot(100, *locks, sessions=sessions))
    after = settle_stamps(fold(before, snapshot(102, *locks, sessions=sessions), BOOK))
    assert {*map(id, after.groups)} == {*map(id, before.groups)}
    assert told_of_42(after) == Held(92 + FRACTION, None, 93 + FRACTION, "stamp")


def told_of_42(history: History) -> Held:
    (group,) = (group for group in history.groups if 42 in group.keys)
    return held(group, history)


def test_a_history_without_stamps_stays_as_it_is() -> None:
    history = fold(History(), snapshot(100, lock_rows(1, 42)), BOOK)
    assert settle_stamps(history).groups is history.groups


def test_instants_of_stamps_are_whole_seconds() -> None:
    history = polled(snapshot(100, lock_rows(1, 42), stamp(42, 10), sessions=[HOLDER]))
    assert [group.stamp for group in shown(history)] == [Instant((NOW // 1_000_000 + 10) * 1_000_000)]

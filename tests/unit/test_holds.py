"""What the fold keeps and what ages it proves, for any polls: no simulation, only what always holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.ages import held, polls_in_a_row, waited
from pglock_inspect.holds import History, fold, rename
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Held, Job, LockRows, Session, Snapshot
from pglock_inspect.names import ConfiguredNames, NameBook
from tests.support.polls import (
    EXCLUSIVE,
    SHARE,
    at,
    lock_rows,
    names,
    packed,
    prepared,
    session,
    snapshot,
    waiting,
    watched,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pglock_inspect.model import HoldGroup, Scope

PER_TRANSACTION = Job("nightly", key=AdvisoryKey.from_bigint(3), scope="transaction")
BOOK = NameBook(ConfiguredNames([PER_TRANSACTION, Job("hourly", key=AdvisoryKey.from_bigint(4))]))


# --- Any polls ------------------------------------------------------------------------------------


class Process(NamedTuple):
    """A process at one poll: which of those that had its pid, in which of its transactions."""

    holder: int
    transaction: int | None
    state: str | None
    exclusive: frozenset[int]
    share: frozenset[int]
    waits_for: int | None
    known: bool
    seen: bool
    application: str
    late: bool


KEYS = st.frozensets(st.integers(1, 6), max_size=4)
PROCESSES = st.builds(
    Process,
    holder=st.integers(1, 2),
    transaction=st.none() | st.integers(1, 2),
    state=st.sampled_from(["idle", "active", "idle in transaction"]),
    exclusive=KEYS,
    share=KEYS,
    waits_for=st.none() | st.integers(7, 8),
    known=st.sampled_from([True, True, True, False]),  # to this role
    seen=st.sampled_from([True, True, True, False]),  # it may be gone when sessions are read
    application=st.sampled_from(["worker", "web"]),
    late=st.booleans(),  # in the state that it is in, since after the locks were read
)
POLLS = st.lists(st.dictionaries(st.integers(1, 3), PROCESSES, max_size=3), min_size=1, max_size=6)


def polled(number: int, processes: dict[int, Process]) -> Snapshot:
    locks, sessions = [], []
    for pid, one in processes.items():
        transaction = f"{pid}{one.holder}/{one.transaction or 0}"
        for keys, mode in ((one.exclusive, EXCLUSIVE), (one.share, SHARE)):
            if keys:
                locks.append(lock_rows(pid, *keys, mode=mode, transaction=transaction))
        if one.waits_for is not None:
            locks.append(replace(waiting(pid, one.waits_for), virtual_transaction=transaction))
        if one.seen:
            shown = session(
                pid,
                one.state if one.known else None,
                backend_start=-100 + one.holder if one.known else None,
                xact_start=-50 + one.transaction if one.known and one.transaction else None,
                state_change=2 * number + (0.1 if one.late else -1) if one.known else None,
                application_name=one.application,
                backend_type="client backend" if one.known else None,
            )
            sessions.append(shown)
    return snapshot(2 * number, *locks, sessions=sessions)


def folded(snapshots: Iterable[Snapshot]) -> Iterable[History]:
    history = History()
    for each in snapshots:
        history = fold(history, each, BOOK)
        yield history


def scope_of(group: HoldGroup, key: int) -> Scope | None:
    return next(
        (subject.name.scope for subject in group.subjects if subject.name and key in subject.keys), None
    )


def told(history: History) -> dict[object, object]:
    """All that a history says of each lock."""
    return {
        (group.rows.pid, group.rows.mode, group.rows.granted, key): (
            next((s.name.text for s in group.subjects if s.name and key in s.keys), None),
            group.sighting,
            held(group, history, scope_of(group, key)),
            waited(group, history),
            group.session,
            group.applications,
            (group.backend_start, group.xact_start),
        )
        for group in history.groups
        for key in group.keys
    }


def copied(one: Snapshot, known: dict[object, object]) -> Snapshot:
    """The same values in objects of its own or, where ``known`` has equal ones, in those."""

    def share(rows: LockRows) -> LockRows:
        same = (rows.pid, rows.virtual_transaction, rows.mode, rows.granted, rows.keys, rows.waitstart)
        return known.setdefault(same, replace(rows, keys=frozenset([*rows.keys])))  # type: ignore[return-value]

    def session(shown: Session) -> Session:
        return known.setdefault(shown, replace(shown))  # type: ignore[return-value]

    return replace(
        one,
        locks=tuple(share(rows) for rows in one.locks),
        sessions={pid: session(shown) for pid, shown in one.sessions.items()},
    )


@given(POLLS)
def test_every_lock_is_in_one_group_and_in_one_subject_of_it(polls: list[dict[int, Process]]) -> None:
    for history, processes in zip(folded(polled(*each) for each in enumerate(polls)), polls, strict=True):
        expected = sorted(
            (pid, mode, granted, key)
            for pid, one in processes.items()
            for keys, mode, granted in (
                (one.exclusive, EXCLUSIVE, True),
                (one.share, SHARE, True),
                (() if one.waits_for is None else [one.waits_for], EXCLUSIVE, False),
            )
            for key in keys
        )
        in_groups = sorted(
            (group.rows.pid or 0, group.rows.mode, group.rows.granted, key)
            for group in history.groups
            for key in group.keys
        )
        assert in_groups == expected
        for group in history.groups:
            in_subjects = [key for subject in group.subjects for key in subject.keys]
            assert sorted(in_subjects) == sorted(group.keys)
            assert all(subject.keys for subject in group.subjects)


@given(POLLS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(polls: list[dict[int, Process]], random: object) -> None:
    def shuffled(one: Snapshot) -> Snapshot:
        locks = [*one.locks]
        random.shuffle(locks)  # type: ignore[attr-defined]
        return replace(one, locks=tuple(locks))

    snapshots = [polled(*each) for each in enumerate(polls)]
    for one, other in zip(folded(snapshots), folded(map(shuffled, snapshots)), strict=True):
        assert told(one) == told(other)


@given(POLLS)
def test_what_a_reader_hands_out_again_tells_the_same_as_equal_values(
    polls: list[dict[int, Process]],
) -> None:
    snapshots = [polled(*each) for each in enumerate(polls)]
    apart = [copied(each, {}) for each in snapshots]
    known: dict[object, object] = {}
    shared = [copied(each, known) for each in snapshots]
    for one, other in zip(folded(apart), folded(shared), strict=True):
        assert told(one) == told(other)


@given(POLLS)
def test_names_that_come_after_a_poll_are_those_of_a_book_that_knew_before(
    polls: list[dict[int, Process]],
) -> None:
    """And what is known of ages is the same but where a lock turns out to end with its transaction."""
    snapshots = [polled(*each) for each in enumerate(polls)]
    late = History()
    for each, knowing in zip(snapshots, folded(snapshots), strict=True):
        late = rename(fold(late, each, NameBook()), BOOK)
        assert names(late) == names(knowing)
        expected, now_told = told(knowing), told(late)
        assert now_told.keys() == expected.keys()
        for lock, what in now_told.items():
            if what != expected[lock]:
                assert lock[3] == 3  # type: ignore[index] # the key that ends with its transaction


@given(POLLS)
def test_bounds_never_contradict_each_other(polls: list[dict[int, Process]]) -> None:
    for history in folded(polled(*each) for each in enumerate(polls)):
        for group in history.groups:
            for scope in (None, "session", "transaction"):
                age = held(group, history, scope)
                ordered = (0.0, age.at_least, age.seconds, age.at_most)
                known = [each for each in ordered if each is not None]
                assert known == sorted(known)
                assert (age.seconds is None) == (age.evidence == "none")


@given(POLLS)
def test_no_lock_outlives_its_holder(polls: list[dict[int, Process]]) -> None:
    """Where the server tells one holder of a pid from the next, and where it does not but for its slot."""
    before: dict[int, Process] = {}
    for history, processes in zip(folded(polled(*each) for each in enumerate(polls)), polls, strict=True):
        for group in history.groups:
            assert group.rows.pid
            last = before.get(group.rows.pid)
            if last is None or last.holder != processes[group.rows.pid].holder:
                assert polls_in_a_row(group, history) == 1
        before = processes


@given(POLLS)
def test_a_transaction_level_lock_does_not_outlive_its_transaction(polls: list[dict[int, Process]]) -> None:
    before: dict[int, Process] = {}
    for history, processes in zip(folded(polled(*each) for each in enumerate(polls)), polls, strict=True):
        for group in history.groups:
            assert group.rows.pid
            one, last = processes[group.rows.pid], before.get(group.rows.pid)
            if (
                not group.rows.granted
                or last is None
                or not (one.known and one.seen and last.known and last.seen)
            ):
                continue
            if one.transaction != last.transaction:
                for subject in group.subjects:
                    if subject.name and subject.name.scope == "transaction":
                        assert polls_in_a_row(group, history) == 1
        before = processes


@given(POLLS)
def test_no_bound_is_younger_than_the_last_poll_that_saw_the_lock(polls: list[dict[int, Process]]) -> None:
    """Of one holder throughout: what was there two polls ago is at least that old, or was taken again."""
    one_holder = [{pid: one._replace(holder=1, known=True) for pid, one in poll.items()} for poll in polls]
    seen: dict[tuple[int | None, str, int], int] = {}
    for number, history in enumerate(folded(polled(*each) for each in enumerate(one_holder))):
        now_seen = {}
        for group in history.groups:
            if not group.rows.granted:
                continue
            for key in group.keys:
                lock = (group.rows.pid, group.rows.mode, key)
                now_seen[lock] = seen.get(lock, number)
                age = held(group, history)
                since = 2.0 * (number - now_seen[lock])
                assert age.at_most is None or age.at_most >= since
                assert polls_in_a_row(group, history) <= number - now_seen[lock] + 1
        seen = now_seen


# --- Examples -------------------------------------------------------------------------------------


def only(history: History) -> HoldGroup:
    (group,) = history.groups
    return group


def test_nothing_is_known_of_a_lock_at_first_but_when_its_session_began() -> None:
    history = watched(snapshot(0, lock_rows(1, 7), sessions=[session(1, "active", backend_start=-50)]))
    assert held(only(history), history) == Held(None, None, 50, "none")


def test_a_key_that_comes_later_is_a_group_of_its_own() -> None:
    worker = session(1, "active", query="SELECT pg_advisory_lock(7)")
    history = watched(
        snapshot(0, lock_rows(1, 7), sessions=[worker]),
        snapshot(2, lock_rows(1, 7, 8), sessions=[worker]),
        snapshot(4, lock_rows(1, 7, 8, 9), sessions=[worker]),
    )
    ages = {next(iter(group.keys)): held(group, history) for group in history.groups}
    assert ages == {
        7: Held(4, None, 1004, "observed"),
        8: Held(2, None, 4, "observed"),
        9: Held(None, None, 2, "none"),
    }


def test_a_key_that_was_away_for_one_poll_is_new() -> None:
    history = watched(snapshot(0, lock_rows(1, 7)), snapshot(2), snapshot(4, lock_rows(1, 7)))
    assert held(only(history), history) == Held(None, None, 2, "none")


def test_a_pid_that_is_used_again_is_another_holder() -> None:
    history = watched(
        snapshot(0, lock_rows(1, 7), sessions=[session(1, "active", backend_start=-50)]),
        snapshot(2, lock_rows(1, 7), sessions=[session(1, "active", backend_start=1)]),
    )
    assert held(only(history), history) == Held(None, None, 1, "none")


def test_a_pid_that_is_used_again_shows_by_its_slot_alone_without_pg_monitor() -> None:
    hidden = session(1, None, backend_start=None, backend_type=None)
    history = watched(
        snapshot(0, lock_rows(1, 7, transaction="3/10"), sessions=[hidden]),
        snapshot(2, lock_rows(1, 7, transaction="3/99"), sessions=[hidden]),
        snapshot(4, lock_rows(1, 7, transaction="4/99"), sessions=[hidden]),
    )
    assert held(only(history), history) == Held(None, None, 2, "none")


def test_a_state_that_changed_after_the_locks_were_read_proves_nothing() -> None:
    late = session(1, "idle", state_change=10.1, backend_start=0)
    history = watched(snapshot(10, lock_rows(1, 7), sessions=[late]))
    assert held(only(history), history) == Held(None, None, 10, "none")
    history = watched(
        snapshot(10, lock_rows(1, 7), sessions=[late]), snapshot(12, lock_rows(1, 7), sessions=[late])
    )
    age = held(only(history), history)
    assert age.at_least == pytest.approx(1.9)
    assert (age.seconds, age.evidence) == (2, "observed")


def test_a_transaction_that_began_after_the_locks_were_read_is_not_theirs() -> None:
    late = session(1, "active", xact_start=10.1, query="SELECT pg_advisory_xact_lock(3)")
    history = watched(snapshot(10, lock_rows(1, 3), sessions=[late]), jobs=[PER_TRANSACTION])
    assert held(only(history), history, "transaction").evidence == "none"


@pytest.mark.parametrize("step", [-3600, -2, 2, 3600])
def test_a_step_of_the_clock_voids_what_was_known(step: float) -> None:
    def worker(change: float) -> Session:
        return session(1, "idle", state_change=change, backend_start=-50)

    before = [snapshot(2 * n, lock_rows(1, 7), sessions=[worker(-20)]) for n in range(3)]
    after = [
        snapshot(2 * n + step, lock_rows(1, 7), sessions=[worker(-20)], clock=2 * n) for n in range(3, 6)
    ]
    history = watched(*before, after[0])
    assert held(only(history), history) == Held(None, None, None, "none")
    assert history.clock_step == pytest.approx(step, abs=0.01)
    assert history.stepped_at_poll == 4
    # What polls have seen since is told by the new clock alone.
    history = watched(*before, *after)
    assert held(only(history), history) == Held(4, None, None, "observed")


def test_a_clock_that_drifts_has_not_stepped() -> None:
    history = watched(*(snapshot(2.3 * n, lock_rows(1, 7), clock=2 * n) for n in range(50)))
    assert history.clock_step is None
    assert held(only(history), history).seconds == pytest.approx(2.3 * 49)


@pytest.mark.parametrize(("read_at", "step"), [(0, None), (15, None), (30, None), (-5, 4), (35, -4)])
def test_a_poll_that_took_long_is_no_step(read_at: float, step: float | None) -> None:
    """From the first second to the 30th of the reader's clock the server may have read its own."""
    first = replace(snapshot(read_at, lock_rows(1, 7), clock=0), answered_at=30.0)
    history = watched(first, snapshot(31, lock_rows(1, 7), clock=31))
    assert history.clock_step == (None if step is None else pytest.approx(step, abs=1.01))


def test_older_steps_are_not_forgotten_when_the_clock_steps_again() -> None:
    """Back by an hour, then by two seconds more: what the first clock said is still unknown."""
    idle = session(1, "idle", state_change=-1, backend_start=-50)
    history = watched(
        snapshot(0, lock_rows(1, 7), sessions=[idle], clock=0),
        snapshot(-3598, lock_rows(1, 7), sessions=[idle], clock=2),
        snapshot(-3594, lock_rows(1, 7), sessions=[idle], clock=4),
        snapshot(-3592, lock_rows(1, 7), sessions=[idle], clock=6),
        *(snapshot(n - 3598, lock_rows(1, 7), sessions=[idle], clock=n) for n in range(8, 3599, 10)),
    )
    age = held(only(history), history)
    assert (age.at_least, age.evidence) == (None, "observed")


def test_who_was_gone_when_sessions_were_read_is_still_who_it_was() -> None:
    worker = session(1, "active", backend_start=-50, query="SELECT pg_advisory_lock(7)")
    history = watched(
        snapshot(0, lock_rows(1, 7), sessions=[worker]),
        snapshot(2, lock_rows(1, 7)),
        snapshot(4, lock_rows(1, 7), sessions=[worker]),
    )
    assert held(only(history), history) == Held(4, None, 54, "observed")


def test_a_prepared_transaction_is_as_old_as_it_says() -> None:
    rows = lock_rows(None, 7, transaction="3/9")
    history = watched(snapshot(100, rows, prepared={"3/9": prepared("left", 40)}))
    assert held(only(history), history) == Held(60, 60, None, "prepared")


def test_a_prepared_transaction_without_its_row_is_only_observed() -> None:
    rows = lock_rows(None, 7, transaction="3/9")
    history = watched(snapshot(0, rows), snapshot(2, rows))
    assert held(only(history), history) == Held(2, None, None, "observed")


def test_a_wait_is_told_by_the_server_or_by_polls() -> None:
    history = watched(snapshot(100, waiting(2, 7, since=40)))
    assert waited(only(history), history) == 60
    history = watched(snapshot(100, waiting(2, 7, since=None)))
    assert waited(only(history), history) is None
    history = watched(snapshot(100, waiting(2, 7, since=None)), snapshot(103, waiting(2, 7, since=None)))
    assert waited(only(history), history) == 3


def test_another_wait_of_the_same_session_begins_anew() -> None:
    def waiter(query_start: float) -> Session:
        return session(2, "active", query_start=query_start)

    history = watched(
        snapshot(100, waiting(2, 7, since=None), sessions=[waiter(90)]),
        snapshot(102, waiting(2, 7, since=None), sessions=[waiter(101)]),
    )
    assert waited(only(history), history) is None


def names_by_poll(books: Sequence[NameBook], snapshots: Sequence[Snapshot]) -> list[str | None]:
    history, texts = History(), []
    for book, each in zip(books, snapshots, strict=True):
        history = fold(history, each, book)
        (subject,) = only(history).subjects
        texts.append(subject.name.text if subject.name else None)
    return texts


def test_a_new_book_names_what_is_held_already() -> None:
    rows = lock_rows(1, 7)
    same = [snapshot(2 * n, rows, sessions=[session(1)]) for n in range(3)]
    knowing = NameBook(ConfiguredNames([Job("nightly", key=AdvisoryKey.from_bigint(7))]))
    assert names_by_poll([BOOK, knowing, knowing], same) == [None, "nightly", "nightly"]


def test_a_name_alone_begins_no_new_lock() -> None:
    history = watched(
        *(snapshot(2 * n, lock_rows(1, 7, 8), sessions=[session(1, "active")]) for n in range(3))
    )
    knowing = NameBook(ConfiguredNames([Job("nightly", key=AdvisoryKey.from_bigint(7))]))
    renamed = rename(history, knowing)
    assert names(renamed) == {packed(7): "nightly", packed(8): None}
    assert held(only(renamed), renamed) == held(only(history), history)
    assert rename(renamed, knowing) is renamed


def test_what_turns_out_to_end_with_its_transaction_is_no_older_than_that() -> None:
    def worker(xact_start: float) -> Session:
        return session(1, "active", xact_start=xact_start, query="SELECT pg_advisory_xact_lock(3)")

    history = watched(
        snapshot(0, lock_rows(1, 3, 4), sessions=[worker(-5)]),
        snapshot(2, lock_rows(1, 3, 4), sessions=[worker(-5)]),
        snapshot(4, lock_rows(1, 3, 4), sessions=[worker(3)]),
    )
    renamed = rename(history, NameBook(ConfiguredNames([PER_TRANSACTION])))
    polls = {next(iter(group.keys)): polls_in_a_row(group, renamed) for group in renamed.groups}
    assert polls == {3: 1, 4: 3}


def test_thousands_of_keys_that_stay_are_not_looked_at_again() -> None:
    """What did not change is the same group again, so that it costs nothing."""
    rows = lock_rows(1, *range(10_000))
    worker = session(1, state_change=-1)
    first = watched(snapshot(0, rows, sessions=[worker]))
    second = fold(first, snapshot(2, rows, sessions=[worker]), first.book or BOOK)
    assert only(second) is only(first)
    assert packed(9_999) in only(second).keys


def test_instants_are_microseconds() -> None:
    assert at(1.5) - at(0) == 1_500_000

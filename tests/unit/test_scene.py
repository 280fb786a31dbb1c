from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.findings.scene import Scene, only_key
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, Limits, OtherWait
from tests.support.polls import (
    EXCLUSIVE,
    SHARE,
    at,
    lock_rows,
    packed,
    prepared,
    scene,
    snapshot,
    waiting,
)

# "Conflicting Lock Modes" of PostgreSQL's documentation, 13.3.1, row by row.
MODES = {
    "AccessShareLock": "_______X",
    "RowShareLock": "______XX",
    "RowExclusiveLock": "____XXXX",
    "ShareUpdateExclusiveLock": "___XXXXX",
    "ShareLock": "__XX_XXX",
    "ShareRowExclusiveLock": "__XXXXXX",
    "ExclusiveLock": "_XXXXXXX",
    "AccessExclusiveLock": "XXXXXXXX",
}


def pids(groups: object) -> list[int | None]:
    return [group.rows.pid for group in groups]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("held", "wanted"), [*product(MODES, MODES)])
def test_who_waits_is_blocked_by_holders_in_conflicting_modes(held: str, wanted: str) -> None:
    one = scene(snapshot(0, lock_rows(1, 7, mode=held), waiting(2, 7, mode=wanted)))
    conflict = MODES[held][list(MODES).index(wanted)] == "X"
    assert pids(one.blockers(one.waits[0])) == ([1] if conflict else [])


def test_an_unknown_mode_of_an_extension_conflicts_with_all() -> None:
    one = scene(snapshot(0, lock_rows(1, 7, mode=SHARE), waiting(2, 7, mode="OwnLock")))
    assert pids(one.blockers(one.waits[0])) == [1]


def test_a_holder_that_upgrades_is_blocked_by_the_others_and_not_by_itself() -> None:
    one = scene(
        snapshot(0, lock_rows(1, 7, mode=SHARE), lock_rows(2, 7, mode=SHARE), waiting(1, 7, mode=EXCLUSIVE))
    )
    assert pids(one.blockers(one.waits[0])) == [2]


def test_keys_meet_only_in_one_database_and_one_form() -> None:
    one = scene(
        snapshot(
            0,
            lock_rows(1, 7, database=6),
            lock_rows(2, (0, 7)),
            lock_rows(3, 8),
            waiting(4, 7),
        )
    )
    assert one.blockers(one.waits[0]) == ()
    assert one.contended == {}


def test_a_prepared_transaction_blocks_too() -> None:
    one = scene(
        snapshot(
            0, lock_rows(None, 7, transaction="-1/9"), waiting(2, 7), prepared={"-1/9": prepared("left")}
        )
    )
    (blocker,) = one.blockers(one.waits[0])
    assert blocker.prepared
    assert blocker.prepared.gid == "left"


def test_two_prepared_transactions_do_not_count_as_one_process() -> None:
    """Both have no pid; a waiter that had none would otherwise seem to wait for itself."""
    one = scene(
        snapshot(
            0,
            lock_rows(None, 7, transaction="-1/8", mode=SHARE),
            lock_rows(None, 7, transaction="-1/9", mode=SHARE),
            waiting(2, 7),
        )
    )
    assert len(one.blockers(one.waits[0])) == 2


def test_waiters_are_told_the_longest_first() -> None:
    one = scene(
        snapshot(
            100, lock_rows(1, 7), waiting(2, 7, since=50), waiting(3, 7, since=10), waiting(4, 7, since=99)
        )
    )
    assert pids(one.waits) == [3, 2, 4]
    assert pids(one.waiters[5, 1, 7]) == [3, 2, 4]
    assert [one.waited(group) for group in one.waits] == [90, 50, 1]


def test_what_a_process_waits_for() -> None:
    one = scene(
        snapshot(
            100,
            lock_rows(1, 7),
            waiting(2, 7, since=50),
            other_waits=(OtherWait(8, "relation", "AccessShareLock", at(30)),),
        )
    )
    advisory, relation = one.wait_of(2), one.wait_of(8)
    assert advisory
    assert (advisory.seconds, advisory.advisory) == (50, one.waits[0])
    assert relation
    assert relation.other
    assert (relation.seconds, relation.other.locktype) == (70, "relation")
    assert one.wait_of(1) is None
    assert one.wait_of(None) is None


def test_the_root_of_a_chain_waits_for_nobody() -> None:
    one = scene(snapshot(0, blocking={2: (1,), 3: (2,), 4: (3, 0)}))
    assert one.roots(4) == (0, 1)
    assert one.roots(2) == (1,)
    assert one.roots(1) == ()
    assert one.roots(None) == ()


def test_a_circle_has_no_root() -> None:
    one = scene(snapshot(0, blocking={1: (2,), 2: (1,)}))
    assert one.roots(1) == ()


def test_limits_are_the_jobs_or_those_for_all() -> None:
    job = Job("nightly", key=AdvisoryKey.from_bigint(7), limits=Limits(1, 2))
    one = scene(snapshot(0, lock_rows(1, 7, 8)), jobs=[job], limits=Limits(3, 4))
    limits = {
        subject.name.text if subject.name else None: one.limits_of(subject.name)
        for _, subject in one.held_subjects
    }
    assert limits == {"nightly": Limits(1, 2), None: Limits(3, 4)}


def test_a_database_without_a_known_name_goes_by_its_oid() -> None:
    one = scene(snapshot(0, lock_rows(1, 7), lock_rows(2, 7, database=99)))
    assert [one.database_name(group) for group in one.groups] == ["app", "99"]


def test_the_only_key_is_that_of_one() -> None:
    (group,) = scene(snapshot(0, lock_rows(1, -7))).groups
    assert only_key(group, group.keys) == AdvisoryKey.from_bigint(-7)
    (group,) = scene(snapshot(0, lock_rows(1, -7, 8))).groups
    assert only_key(group, group.keys) is None


KEYS = st.integers(-3, 3)
HOLDS = st.lists(
    st.tuples(st.integers(1, 4), st.frozensets(KEYS, min_size=1), st.sampled_from([EXCLUSIVE, SHARE])),
    unique_by=lambda hold: (hold[0], hold[2]),
)
WAITS = st.lists(
    st.tuples(st.integers(1, 8), KEYS, st.sampled_from([EXCLUSIVE, SHARE]), st.integers(0, 9)),
    unique_by=lambda wait: wait[0],
)


def made(holds: list[tuple[int, frozenset[int], str]], waits: list[tuple[int, int, str, int]]) -> Scene:
    return scene(
        snapshot(
            10,
            *(lock_rows(pid, *keys, mode=mode) for pid, keys, mode in holds),
            *(waiting(pid, key, mode=mode, since=since) for pid, key, mode, since in waits),
        )
    )


@given(holds=HOLDS, waits=WAITS)
def test_blockers_are_those_that_a_look_at_every_pair_finds(
    holds: list[tuple[int, frozenset[int], str]], waits: list[tuple[int, int, str, int]]
) -> None:
    one = made(holds, waits)
    for waiter in one.waits:
        (pid, wanted, mode, _) = next(wait for wait in waits if wait[0] == waiter.rows.pid)
        expected = [
            (holder, held_mode)
            for holder, keys, held_mode in holds
            if wanted in keys and holder != pid and EXCLUSIVE in (mode, held_mode)
        ]
        blockers = [(blocker.rows.pid, blocker.rows.mode) for blocker in one.blockers(waiter)]
        assert sorted(blockers) == sorted(expected)
        assert len(set(blockers)) == len(blockers)


@given(holds=HOLDS, waits=WAITS)
def test_every_wait_is_in_the_queue_of_its_key(
    holds: list[tuple[int, frozenset[int], str]], waits: list[tuple[int, int, str, int]]
) -> None:
    one = made(holds, waits)
    queued = {(group.rows.pid, place) for place, groups in one.waiters.items() for group in groups}
    assert queued == {(pid, (5, 1, packed(key))) for pid, key, _, _ in waits}
    for queue in one.waiters.values():
        waited = [one.waited(group) or 0.0 for group in queue]
        assert waited == sorted(waited, reverse=True)

"""How many holds of a job were seen, and how long they lasted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from hypothesis import given, settings, strategies as st

from pglock_inspect.findings import Scene
from pglock_inspect.holds import History, fold
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Database, Job, Limits, Tally
from pglock_inspect.names import ConfiguredNames, NameBook
from pglock_inspect.tallies import Tallies, count_holds
from tests.support.polls import SERVER, SHARE, lock_rows, session, snapshot, waiting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pglock_inspect.model import Snapshot

NIGHTLY = Job("nightly", key=AdvisoryKey.from_bigint(7))
RANGE = Job("range", first=42)
DIGEST = Job("send_daily_digest", scope="transaction")
DIGEST_KEY = -1957215242


def counted(
    *polls: Snapshot, jobs: Iterable[Job] = (NIGHTLY,), tallies: Tallies | None = None
) -> Mapping[str, Mapping[str, Tally]]:
    """What is counted after these polls."""
    return follow(*polls, jobs=jobs, tallies=tallies).totals


def follow(*polls: Snapshot, jobs: Iterable[Job], tallies: Tallies | None = None) -> Tallies:
    jobs = tuple(jobs)
    history, book, tallies = History(), NameBook(ConfiguredNames(jobs)), tallies or Tallies()
    for each in polls:
        history = fold(history, each, book)
        # As one process hands them on to the next.
        tallies = msgspec.json.decode(msgspec.json.encode(tallies), type=Tallies)
        tallies = count_holds(tallies, Scene(history, Limits(), jobs))
    return tallies


def lasted(**at: int) -> tuple[int, ...]:
    """Numbers by bound: ``_15=1`` is one hold of up to 15 s."""
    bounds = (1, 5, 15, 60, 300, 900, 3600, 14_400, 86_400, "longer")
    return tuple(at.get(f"_{bound}", 0) for bound in bounds)


def test_a_job_counts_from_nothing_where_it_was_never_seen() -> None:
    elsewhere = Job("nightly", key=AdvisoryKey.from_bigint(7), database="other")
    assert counted(snapshot(0)) == {"nightly": {"": Tally()}}
    assert counted(snapshot(0), jobs=[elsewhere]) == {"nightly": {"other": Tally()}}


def test_a_hold_counts_once_however_many_polls_see_it() -> None:
    polls = [snapshot(seconds, lock_rows(1, 7)) for seconds in (0, 2, 4)]
    assert counted(*polls) == {"nightly": {"app": Tally(begun=1)}}


def test_a_hold_that_ended_lasted_as_long_as_the_last_poll_said() -> None:
    polls = [snapshot(seconds, lock_rows(1, 7)) for seconds in (2, 4, 12)]
    assert counted(snapshot(0), *polls, snapshot(14)) == {
        "nightly": {"app": Tally(begun=1, lasted=lasted(_15=1), seconds=10.0)}
    }


def test_a_proven_age_counts_more_than_what_was_seen() -> None:
    idle = session(1, state_change=-500)
    counts = counted(snapshot(0, lock_rows(1, 7), sessions=[idle]), snapshot(2))
    assert counts["nightly"]["app"] == Tally(begun=1, lasted=lasted(_900=1), seconds=500.0)


def test_a_hold_that_one_poll_saw_lasted_no_time_that_is_known() -> None:
    counts = counted(snapshot(0), snapshot(2, lock_rows(1, 7)), snapshot(4))
    assert counts["nightly"]["app"] == Tally(begun=1, lasted=lasted(_1=1))


def test_the_same_process_holds_anew_after_a_poll_without_it() -> None:
    counts = counted(*(snapshot(t, *([lock_rows(1, 7)] if t % 4 == 0 else [])) for t in range(0, 12, 2)))
    assert counts["nightly"]["app"].begun == 3
    assert sum(counts["nightly"]["app"].lasted) == 3


def test_holders_of_one_key_count_each_and_waiters_do_not() -> None:
    sharing = [lock_rows(pid, 7, mode=SHARE) for pid in (1, 2)]
    assert counted(snapshot(0, *sharing, waiting(3, 7)))["nightly"]["app"].begun == 2


def test_keys_of_a_namespace_count_each() -> None:
    polls = [snapshot(0, lock_rows(1, (42, 1), (42, 2), (42, 3))), snapshot(8, lock_rows(1, (42, 2)))]
    counts = counted(*polls, snapshot(10), jobs=[RANGE])
    assert counts["range"]["app"] == Tally(begun=3, lasted=lasted(_1=2, _15=1), seconds=8.0)


def test_a_new_transaction_holds_anew() -> None:
    polls = [
        snapshot(t, lock_rows(1, DIGEST_KEY), sessions=[session(1, "active", xact_start=began)])
        for t, began in ((10, 1), (12, 11), (14, 11))
    ]
    counts = counted(*polls, jobs=[DIGEST])
    assert counts["send_daily_digest"]["app"] == Tally(begun=2, lasted=lasted(_15=1), seconds=9.0)


def test_what_a_restarted_server_held_has_ended() -> None:
    restarted = msgspec.structs.replace(SERVER, started_at=SERVER.started_at and SERVER.started_at + 1)
    after = snapshot(10, server=restarted)
    counts = counted(snapshot(0, lock_rows(1, 7)), snapshot(4, lock_rows(1, 7)), after)
    assert counts["nightly"]["app"] == Tally(begun=1, lasted=lasted(_5=1), seconds=4.0)


def test_a_step_of_the_clock_makes_no_hold_a_new_one() -> None:
    polls = [snapshot(0, lock_rows(1, 7)), snapshot(3602, lock_rows(1, 7), clock=2)]
    later = [snapshot(3604, lock_rows(1, 7), clock=4), snapshot(3606, clock=6)]
    counts = counted(*polls, *later)["nightly"]["app"]
    assert (counts.begun, sum(counts.lasted)) == (1, 1)


def test_two_databases_count_apart_and_two_jobs_of_one_name_too() -> None:
    jobs = [Job("nightly", key=AdvisoryKey.from_bigint(7), database=name) for name in ("app", "other")]
    polls = [snapshot(0, lock_rows(1, 7), lock_rows(2, 7, database=6)), snapshot(2, lock_rows(1, 7))]
    for chosen in ([NIGHTLY], jobs):
        counts = counted(*polls, jobs=chosen)["nightly"]
        assert {name: (tally.begun, sum(tally.lasted)) for name, tally in counts.items()} == {
            "app": (1, 0),
            "other": (1, 1),
        }


def test_a_database_that_is_gone_is_forgotten_with_what_was_counted_there() -> None:
    polls = [snapshot(0, lock_rows(1, 7), lock_rows(2, 7, database=6)), snapshot(2, lock_rows(1, 7))]
    dropped = snapshot(4, lock_rows(1, 7), databases={5: Database(5, "app")})
    assert counted(*polls)["nightly"].keys() == {"app", "other"}
    assert counted(*polls, dropped)["nightly"].keys() == {"app"}


def test_a_job_that_is_no_longer_configured_is_forgotten() -> None:
    before = follow(snapshot(0, lock_rows(1, 7)), jobs=[NIGHTLY])
    assert counted(snapshot(2, lock_rows(1, 7)), jobs=[RANGE], tallies=before) == {"range": {"": Tally()}}


@settings(deadline=None)  # others work beside it
@given(
    st.lists(
        st.dictionaries(st.sampled_from([1, 2, 3]), st.sets(st.sampled_from([7, 8, 9]), min_size=1)),
        max_size=8,
    )
)
def test_what_was_counted_is_what_polls_show(polls: list[dict[int, set[int]]]) -> None:
    jobs = [Job(str(key), key=AdvisoryKey.from_bigint(key)) for key in (7, 8, 9)]
    snapshots = [
        snapshot(2 * number, *(lock_rows(pid, *keys) for pid, keys in held.items()))
        for number, held in enumerate(polls)
    ]
    tallies = follow(*snapshots, jobs=jobs)
    seen = [{(pid, key) for pid, keys in held.items() for key in keys} for held in polls]
    for key in (7, 8, 9):
        of_key = [{hold for hold in holds if hold[1] == key} for holds in seen]
        begun = sum(len(now - before) for before, now in zip([set(), *of_key], of_key, strict=False))
        tally = tallies.totals.get(str(key), {}).get("app", Tally())
        assert tally.begun == begun
        assert sum(tally.lasted) == begun - len(of_key[-1] if of_key else ())

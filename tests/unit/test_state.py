"""What is carried from one process to the next is worth as much as what one process keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.ages import held
from pglock_inspect.holds import History, fold
from pglock_inspect.model import Job, OtherWait, Server
from pglock_inspect.names import ConfiguredNames, NameBook
from pglock_inspect.runs import note_runs
from pglock_inspect.state import Memory, State, recall, remember
from pglock_inspect.waits import note_waits
from tests.support.polls import SERVER, SHARE, at, lock_rows, prepared, session, snapshot, waiting, watched

if TYPE_CHECKING:
    from pglock_inspect.model import LockRows, Session, Snapshot

JOBS = (
    Job("digest", scope="transaction", every=60.0, min_held=10.0),
    Job("leader", key=lock_rows(1, 7).key(7), every=5.0, min_held=4.0),
)
BOOK = NameBook(ConfiguredNames(JOBS))
DIGEST = -1957215242
RESTARTED = replace(SERVER, started_at=at(50))


def carried(state: State) -> State:
    return msgspec.json.decode(msgspec.json.encode(state), type=State)


def poll(memory: Memory, read: Snapshot) -> Memory:
    history = fold(memory.history, read, BOOK)
    return Memory(history, note_runs(memory.runs, history, JOBS), note_waits(memory.waits, read))


def known(memory: Memory) -> object:
    """All that a rule may look at, whatever order it comes in."""
    history = memory.history
    ages = {
        (group.rows.pid, group.rows.virtual_transaction, group.rows.mode, group.rows.granted, key): (
            group.sighting,
            group.backend_start,
            group.xact_start,
            group.applications,
            held(group, history, "transaction"),
            held(group, history, None),
        )
        for group in history.groups
        for key in group.keys
    }
    clock = history.poll, history.comparable_from, history.clock_step, history.stepped_at_poll
    return ages, clock, memory.runs, memory.waits


VALUES = st.lists(st.sampled_from([DIGEST, 7, -1, 2**62]), min_size=1, unique=True)
MOMENTS = st.sampled_from([-900, -5, 1, 12, 31])


@st.composite
def locks_of(draw: st.DrawFn, pid: int) -> list[LockRows]:
    rows = [lock_rows(pid, *draw(VALUES))]
    if draw(st.booleans()):
        rows.append(lock_rows(pid, *draw(VALUES), mode=SHARE))
    if draw(st.booleans()):
        rows.append(lock_rows(pid, (7, draw(st.integers(1, 3)))))
    if draw(st.booleans()):
        rows.append(waiting(pid, 99, since=draw(MOMENTS)))
    return rows


@st.composite
def sessions_of(draw: st.DrawFn, pid: int) -> Session:
    return session(
        pid,
        draw(st.sampled_from(["idle", "active", "idle in transaction", None])),
        backend_start=draw(st.sampled_from([-1000, -1, None])),
        xact_start=draw(st.one_of(st.none(), MOMENTS)),
        query_start=draw(MOMENTS),
        state_change=draw(MOMENTS),
        application_name=draw(st.sampled_from(["worker", "été \x1b", ""])),
    )


@st.composite
def polls(draw: st.DrawFn) -> list[Snapshot]:
    """A few polls; the server's clock may step, and the server restart."""
    read = []
    offset, server = 0, SERVER
    for number in range(draw(st.integers(2, 5))):
        offset += draw(st.sampled_from([0, 0, 0, -30, 100]))
        server = draw(st.sampled_from([server, server, RESTARTED]))
        pids = draw(st.lists(st.integers(1, 3), unique=True))
        locks = [rows for pid in pids for rows in draw(locks_of(pid))]
        more = {}
        if draw(st.booleans()):
            locks.append(lock_rows(None, 5, transaction="9/9"))
            more = {"prepared": {"9/9": prepared("transfer")}}
        read.append(
            snapshot(
                number * 2 + offset,
                *locks,
                clock=number * 2,
                sessions=[draw(sessions_of(pid)) for pid in pids if draw(st.booleans())],
                other_waits=tuple(OtherWait(pid, "relation", "ShareLock") for pid in pids),
                server=server,
                **more,
            )
        )
    return read


@given(polls())
def test_nothing_is_lost_on_the_way_to_another_process(snapshots: list[Snapshot]) -> None:
    kept = passed_on = Memory()
    for read in snapshots:
        kept = poll(kept, read)
        passed_on = poll(recall(carried(remember(passed_on))), read)
        assert known(passed_on) == known(kept)


def test_no_text_of_a_session_is_carried_but_the_names_of_its_applications() -> None:
    secret = session(
        1, state_change=-1, query="SELECT 'secret'", client="10.0.0.1", user="secret", wait_event="secret"
    )
    history = watched(snapshot(0, lock_rows(1, 7), sessions=[secret]))
    text = msgspec.json.encode(remember(Memory(history)))
    assert b"secret" not in text
    assert b"10.0.0.1" not in text
    assert b"worker-1" in text


def test_nothing_observed_yet_is_nothing_to_carry() -> None:
    assert remember(Memory()) == State()
    assert recall(State()) == Memory()


def test_without_the_clock_no_age_is_carried_and_a_watch_begins_anew_that_knows_the_last_run() -> None:
    memory = Memory()
    for seconds in (0, 2, 4):
        memory = poll(memory, snapshot(seconds, lock_rows(1, 7), sessions=[session(1)]))
    state = remember(memory).without_clock()
    assert state.last is None
    after = poll(recall(carried(state)), snapshot(5, lock_rows(1, 7), sessions=[session(1)]))
    assert after.history.poll == 1
    assert after.runs["leader"].watched_since == at(5)
    without = poll(recall(carried(state)), snapshot(5))
    assert without.runs["leader"].last_held == at(4)
    assert without.runs["leader"].watched_since == at(5)


def test_another_server_of_that_name_starts_from_nothing() -> None:
    memory = poll(Memory(), snapshot(0, lock_rows(1, 7), sessions=[session(1)]))
    other = Server("18.6", 18_00_06, "app", started_at=at(-7))
    after = poll(
        recall(carried(remember(memory))), snapshot(2, lock_rows(1, 7), sessions=[session(1)], server=other)
    )
    (group,) = after.history.groups
    assert group.sighting.first_seen == at(2)
    assert group.sighting.absent_at is None


def test_a_history_of_many_locks_is_carried_once() -> None:
    rows = lock_rows(1, *range(1000))
    history = History()
    for seconds, locks in ((0, lock_rows(1, *range(500))), (2, rows)):
        history = fold(history, snapshot(seconds, locks, sessions=[session(1)]), BOOK)
    assert len(history.groups) == 2
    assert len(msgspec.json.encode(remember(Memory(history)))) < 20_000

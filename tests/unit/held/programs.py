"""Programs for a simulated server, as hypothesis makes them up: who does what when, and when it is polled."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from tests.unit.held.poller import Poller
from tests.unit.held.simulator import SHARED, Backend, Key, Server, stamp_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tests.unit.held.poller import Observation

IN_TRANSACTIONS = Key(1, 99)
"""A key that is known to be taken at transaction level only."""

KEYS = (
    Key(1, 42),
    IN_TRANSACTIONS,
    Key(1, 7 << 32 | 42),  # the same low bits
    Key(2, 7 << 32 | 42),  # and once more
    Key(1, 42, SHARED),
    Key(1, -1957215242 & 0xFFFFFFFF_FFFFFFFF),
    Key(2, 42 << 32 | 7, SHARED),  # stands where the stamps of 42 do
)

_STATEMENTS: Mapping[str, str] = {
    "query": "UPDATE jobs SET done = true",
    "take": "SELECT pg_try_advisory_lock(42)",
    "take in transaction": "SELECT pg_try_advisory_xact_lock(42)",
    "take stamped": "SELECT pg_try_advisory_lock(42), pg_try_advisory_lock_shared(42, 1796004000)",
    "take stamped in transaction": "SELECT pg_try_advisory_xact_lock(42)",
    "wait": "SELECT pg_advisory_lock(42)",
    "wait in transaction": "SELECT pg_advisory_xact_lock(42)",
    "take again": "DO $$ BEGIN PERFORM pg_advisory_unlock(42); PERFORM pg_advisory_lock(42); END $$",
    "release": "SELECT pg_advisory_unlock(42)",
    "release all": "SELECT pg_advisory_unlock_all()",
    "leave stamp": "SELECT pg_advisory_unlock(42)",
    "drop stamp": "SELECT pg_advisory_unlock_shared(42, 1796004000)",
    "forge": "SELECT pg_advisory_lock_shared(42, 7)",
    "run": "UPDATE jobs SET done = true",
    "call": "CALL work()",
    "begin": "BEGIN",
    "commit": "COMMIT",
    "rollback": "ROLLBACK",
    "savepoint": "SAVEPOINT here",
    "rollback to": "ROLLBACK TO SAVEPOINT here",
    "prepare": "PREPARE TRANSACTION 'transfer-1'",
}
_CONTROL: Mapping[str, Callable[[Backend], None]] = {
    "release all": Backend.release_all,
    "begin": Backend.begin,
    "commit": Backend.end,
    "rollback": Backend.end,
    "savepoint": Backend.savepoint,
    "rollback to": Backend.rollback_to,
}
_ALONE = ("run", "call", "begin", "commit", "rollback", "savepoint", "rollback to", "prepare")
"""What cannot be done within a statement that runs."""

_OTHERS = (
    *("finish", "fail", "commit in procedure"),
    *("resolve", "disconnect", "reconnect", "veil", "restart", "crash"),
)
_OFTEN = ("take stamped", "take again", "begin", "finish", "forge", "commit in procedure")
_ACTIONS = (*_STATEMENTS, *_OTHERS, *_OFTEN)
_FORGED = (0, -1, 1, -2, 2, -5, -60, -3600, 3600, -86_400, 60)
"""By how many seconds a forged stamp differs from the clock."""
_SHORT = 20_000
_SESSIONS = 3


class Step(NamedTuple):
    """One thing that a session does after a pause (microseconds); ``number`` varies how."""

    action: str
    who: int
    key: Key
    pause: int
    number: int


class Poll(NamedTuple):
    """A poll, and what is done between its glances; ``missing`` sessions do not show their row."""

    before_locks: tuple[Step, ...]
    before_sessions: tuple[Step, ...]
    before_prepared: tuple[Step, ...]
    missing: frozenset[int]
    torn: bool


class Episode(NamedTuple):
    """What is done up to a poll, with a step of the clock (seconds) on the way.

    A step before a server is first polled leaves no trace, nor do two that undo each other between polls.
    """

    steps: tuple[Step, ...]
    clock_step: int
    steps_after: tuple[Step, ...]
    pause: int
    poll: Poll


_PAUSES = st.one_of(st.sampled_from([0, 1, 1_000_000, 60_000_000, 7_200_000_000]), st.integers(0, 3_000_000))
_STEPS = st.builds(
    Step,
    st.sampled_from(_ACTIONS),
    st.integers(0, _SESSIONS - 1),
    st.sampled_from(KEYS),
    _PAUSES,
    st.integers(0, 100),
)
_FEW_STEPS = st.one_of(st.just(()), st.lists(_STEPS, max_size=2).map(tuple))
_POLLS = st.builds(
    Poll,
    _FEW_STEPS,
    _FEW_STEPS,
    _FEW_STEPS,
    st.one_of(st.just(frozenset()), st.frozensets(st.integers(101, 103), max_size=2)),
    st.sampled_from([False, False, False, True]),
)
_EPISODES = st.builds(
    Episode,
    st.lists(_STEPS, max_size=5).map(tuple),
    st.sampled_from([0] * 12 + [2, -2, 3600, -3600, 60, -60]),
    _FEW_STEPS,
    _PAUSES,
    _POLLS,
)
PROGRAMS = st.lists(_EPISODES, min_size=1, max_size=10)


def run(program: list[Episode]) -> Iterator[Observation]:
    """Yield what each poll of a program shows."""
    server = Server()
    poller = Poller(server)
    polled = None
    for episode in program:
        for step in episode.steps:
            _do(server, step)
        if polled == server.started_at:
            server.offset += episode.clock_step * 1_000_000
        for step in episode.steps_after:
            _do(server, step)
        server.pass_time(episode.pause)
        polled = server.started_at
        yield _poll(server, poller, episode.poll)


def _poll(server: Server, poller: Poller, poll: Poll) -> Observation:
    poller.ask()
    _quickly(server, poll.before_locks)
    poller.read_locks(torn=poll.torn)
    _quickly(server, poll.before_sessions)
    poller.read_sessions(missing=poll.missing)
    _quickly(server, poll.before_prepared)
    poller.read_prepared()
    return poller.answer()


def _quickly(server: Server, steps: tuple[Step, ...]) -> None:
    for step in steps:
        if step.action not in ("restart", "crash"):  # which would end the poll
            _do(server, step._replace(pause=step.pause % _SHORT, number=step.number % 4))


def _do(server: Server, step: Step) -> None:
    server.pass_time(step.pause)
    pid = 101 + step.who
    if step.action in ("restart", "crash"):
        if step.number < 20:
            server.restart(after_crash=step.action == "crash")
    elif step.action == "resolve":
        server.resolve(f"transfer-{step.number % 2}")
    else:
        backend = server.backends.get(pid) or _connect(server, step)
        if step.action in ("disconnect", "reconnect"):
            del server.backends[pid]
            if step.action == "reconnect":
                server.pass_time(step.number)
                _connect(server, step)
        elif step.action == "veil":
            backend.visible = not backend.visible
        else:
            _act(server, backend, step)
    server.grant()


def _connect(server: Server, step: Step) -> Backend:
    slot = step.who if step.number % 2 else 10 + step.who
    database = 6 if step.who == 2 else 5
    return server.connect(101 + step.who, slot, database, visible=step.number % 5 != 0)


def _act(server: Server, backend: Backend, step: Step) -> None:
    """Do something within the running statement, or as a statement of its own."""
    if backend.running and step.action == "fail":
        backend.fail()
    elif backend.wait or (backend.running and step.action in _ALONE):
        return
    elif backend.running and step.action == "finish":
        backend.finish()
    elif backend.running and step.action == "commit in procedure" and backend.query == _STATEMENTS["call"]:
        backend.commit_in_procedure()
    elif backend.running:
        _within(server, backend, step)
    elif step.action in _STATEMENTS:
        backend.start(_STATEMENTS[step.action])
        server.pass_time(step.number)
        _within(server, backend, step)
        server.pass_time(step.number)
        if step.action not in ("run", "call") and not backend.wait:
            backend.finish()


def _within(server: Server, backend: Backend, step: Step) -> None:
    if step.action in _CONTROL:
        _CONTROL[step.action](backend)
    elif step.action == "prepare":
        backend.prepare(f"transfer-{step.number % 2}")
    elif step.action.startswith(("take", "wait", "forge")):
        _take(server, backend, step)
    elif step.action in ("release", "leave stamp"):
        backend.release(step.key, with_stamp=step.action == "release")
    elif step.action == "drop stamp" and step.key in backend.locks:
        backend.release(backend.locks[step.key].stamp or step.key)


def _take(server: Server, backend: Backend, step: Step) -> None:
    level = step.key == IN_TRANSACTIONS or step.action.endswith("in transaction")
    stamp_after = step.number * 5_000
    match step.action.removesuffix(" in transaction"):
        case "take":
            backend.take(step.key, transaction_level=level)
        case "take stamped":
            backend.take(step.key, transaction_level=level, stamp_after=stamp_after)
        case "wait":
            backend.await_lock(step.key, transaction_level=level)
        case "take again":
            backend.release(step.key)
            server.grant()
            server.pass_time(step.number * 1000)
            backend.take(step.key, transaction_level=level, stamp_after=stamp_after)
        case "forge":
            second = server.clock() + _FORGED[step.number % len(_FORGED)] * 1_000_000
            backend.take(stamp_for(step.key, second), transaction_level=level)

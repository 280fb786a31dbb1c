"""Programs for a simulated server, as hypothesis makes them up: who does what when, and when it is polled."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from tests.unit.held.poller import Poller
from tests.unit.held.simulator import SHARED, Backend, Key, Server, stamp_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tests.unit.held.poller import Observation

IN_TRANSACTIONS = Key(1, 99)
"""A key that is known to be taken at transaction level only."""

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

_FORGED = (0, -1, 1, -2, 2, -5, -60, -3600, 3600, -86_400, 60)
"""By how many seconds a forged stamp differs from the clock."""

_CLOCK_STEPS = (2, -2, 60, -60, 3600, -3600)
"""Seconds."""

_THEMES = (
    ("take", "take again", "release", "release all", "query", "wait"),
    ("take stamped", "forge", "leave stamp", "drop stamp", "release", "take again"),
    ("run", "take", "take again", "finish", "fail"),
    ("call", "take in transaction", "commit in procedure", "finish"),
    ("begin", "take in transaction", "take stamped in transaction", "commit", "rollback"),
    ("begin", "savepoint", "take in transaction", "rollback to", "fail", "wait in transaction"),
    ("begin", "take stamped in transaction", "prepare", "resolve", "crash"),
    ("take over", "take", "veil", "disconnect"),
    ("reconnect", "take stamped", "restart", "crash"),
    ("step of the clock", "step of the clock", "take", "query", "release"),
)
_KEYS = (
    Key(1, 42),
    IN_TRANSACTIONS,
    Key(1, 7 << 32 | 42),  # the same low bits
    Key(2, 7 << 32 | 42),  # and once more
    Key(1, 42, SHARED),
    Key(1, -1957215242 & 0xFFFFFFFF_FFFFFFFF),
    Key(2, 42 << 32 | 7, SHARED),  # stands where the stamps of 42 do
)
_WHO = (0, 0, 0, 0, 1, 1, 2)
_PAUSES = (0, 0, 1, 700, 20_000, 300_000, 999_999, 1_000_000, 1_700_000, 5_000_000, 60_000_000, 7_200_000_000)
_NUMBERS = range(60)


class Step(NamedTuple):
    """What a session, or the poller, does after a pause (microseconds); ``number`` varies how.

    A "poll" is all that is left of one, a "glance" its next part, with whatever comes next in between.
    """

    action: str
    who: int
    key: Key
    pause: int
    number: int


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """Programs with a theme or two each, so that what belongs together meets often."""
    themes = draw(st.lists(st.sampled_from(_THEMES), min_size=1, max_size=2))
    kinds = [kind for theme in themes for kind in theme]
    actions = (*kinds, *("poll",) * len(kinds), *("glance",) * (len(kinds) // 2))
    keys = draw(st.lists(st.sampled_from(_KEYS), min_size=1, max_size=3, unique=True))
    choices: tuple[Sequence[Any], ...] = (actions, _WHO, keys, _PAUSES, _NUMBERS)
    numbers = st.integers(0, prod(map(len, choices)) - 1)
    length = draw(st.integers(1, 50))
    return [_step(number, choices) for number in draw(st.lists(numbers, min_size=length, max_size=length))]


def _step(number: int, choices: Sequence[Sequence[Any]]) -> Step:
    chosen = []
    for options in choices:
        number, choice = divmod(number, len(options))
        chosen.append(options[choice])
    return Step(*chosen)


def run(program: Sequence[Step]) -> Iterator[Observation]:
    """Yield what each poll of a program shows.

    A step of the clock before a server is first polled would leave no trace, nor would two that undo each
    other between polls.
    """
    server = Server()
    poller = Poller(server)
    poll: Iterator[Observation | None] | None = None
    may_step = False
    for step in [*program, Step("poll", 0, IN_TRANSACTIONS, 0, 0)]:
        if poll is None:
            server.pass_time(step.pause)
        elif step.action in ("restart", "crash", "step of the clock"):
            continue  # the end of the server would end the poll
        if step.action == "step of the clock":
            server.offset += _CLOCK_STEPS[step.number % len(_CLOCK_STEPS)] * 1_000_000 if may_step else 0
            may_step = False
        elif step.action in ("poll", "glance"):
            poll = poll or _poll(poller, step.number)
            for observation in poll:
                if observation:
                    yield observation
                    poll, may_step = None, True
                if step.action == "glance":
                    break
        else:
            may_step = may_step and step.action != "restart"
            _do(server, step._replace(number=step.number % 2) if poll else step)


def _poll(poller: Poller, number: int) -> Iterator[Observation | None]:
    """Do a poll in parts. Some sessions do not show their row."""
    poller.ask()
    yield None
    poller.read_locks(torn=number % 4 == 3)
    yield None
    poller.read_sessions(missing=[101 + who for who, every in enumerate((3, 5, 7)) if number % every == 1])
    yield None
    poller.read_prepared()
    yield poller.answer()


def _do(server: Server, step: Step) -> None:
    if step.action in ("restart", "crash"):
        if step.number % 3 == 0:
            server.restart(after_crash=step.action == "crash")
    elif step.action == "resolve":
        server.resolve(f"transfer-{step.number % 2}")
    else:
        backend = server.backends.get(101 + step.who) or _connect(server, step)
        if step.action == "veil":
            backend.visible = not backend.visible
        elif step.action in ("disconnect", "reconnect", "take over"):
            del server.backends[backend.pid]
            server.pass_time(step.number)
            if step.action != "disconnect":
                other = _connect(server, step, slot=backend.slot if step.action == "take over" else None)
                _act(server, other, step._replace(action="take stamped" if step.number % 3 else "take"))
        else:
            _act(server, backend, step)
    server.grant()


def _connect(server: Server, step: Step, *, slot: int | None = None) -> Backend:
    if slot is None:
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

"""What watching a server has shown, as far as another process can go on from it.

Names, queries and the state of sessions are read anew by the next poll; what is kept are instants, and what
tells a holder from another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.holds import History
from pglock_inspect.model import HoldGroup, Instant, LockRows, Server, Session, Sighting, Snapshot
from pglock_inspect.runs import JobRuns
from pglock_inspect.tallies import Tallies
from pglock_inspect.waits import SeenWait


class SeenSession(Struct, frozen=True, omit_defaults=True):
    """What tells a session, and a wait of it, from another one."""

    backend_start: Instant | None = None
    query_start: Instant | None = None


class SeenHold(Struct, frozen=True, omit_defaults=True):
    """A `HoldGroup` as the last poll left it; the keys of ``rows`` are those of the group."""

    rows: LockRows
    sighting: Sighting
    session: SeenSession | None = None
    backend_start: Instant | None = None
    xact_start: Instant | None = None
    applications: tuple[str, ...] = ()


class SeenPoll(Struct, frozen=True, omit_defaults=True):
    """The last poll, and what all polls up to it have shown. Fields are those of `History` and `Snapshot`.

    ``backends`` tells since when each session that the poll saw has been there, by pid.
    """

    poll: int
    taken_at: Instant
    asked_at: float
    answered_at: float
    started_at: Instant | None = None
    backends: Mapping[int, Instant] = {}
    holds: tuple[SeenHold, ...] = ()
    waits: Mapping[int, SeenWait] = {}
    comparable_from: Instant | None = None
    clock_step: float | None = None
    stepped_at_poll: int | None = None


class State(Struct, frozen=True, omit_defaults=True):
    """What was observed of one server. ``runs`` go by `run_key`, ``failures`` by reason."""

    last: SeenPoll | None = None
    runs: Mapping[str, JobRuns] = {}
    tallies: Tallies = Tallies()
    failures: Mapping[str, int] = {}

    def without_clock(self) -> State:
        """Return what is left where the monotonic clock of the last poll goes no longer, as after a reboot.

        The server's clock may have been set since then, and nothing would tell: no age can be carried over.
        """
        return replace(
            self,
            last=None,
            runs={name: replace(runs, last_poll=None) for name, runs in self.runs.items()},
            tallies=replace(self.tallies, open=()),
        )


class Memory(NamedTuple):
    """What a watcher keeps from one poll to the next."""

    history: History = History()
    runs: Mapping[str, JobRuns] = {}
    waits: Mapping[int, SeenWait] = {}
    tallies: Tallies = Tallies()
    failures: Mapping[str, int] = {}


def remember(memory: Memory) -> State:
    """Return the state to go on from."""
    history, snapshot = memory.history, memory.history.snapshot
    if snapshot is None:
        return State(None, memory.runs, memory.tallies, memory.failures)
    last = SeenPoll(
        poll=history.poll,
        taken_at=snapshot.taken_at,
        asked_at=snapshot.asked_at,
        answered_at=snapshot.answered_at,
        started_at=snapshot.server.started_at,
        backends={s.pid: s.backend_start for s in snapshot.sessions.values() if s.backend_start is not None},
        holds=tuple(map(_seen, history.groups)),
        waits=memory.waits,
        comparable_from=history.comparable_from,
        clock_step=history.clock_step,
        stepped_at_poll=history.stepped_at_poll,
    )
    return State(last, memory.runs, memory.tallies, memory.failures)


def _seen(group: HoldGroup) -> SeenHold:
    session = group.session
    return SeenHold(
        rows=replace(group.rows, keys=group.keys),
        sighting=group.sighting,
        session=SeenSession(session.backend_start, session.query_start) if session else None,
        backend_start=group.backend_start,
        xact_start=group.xact_start,
        applications=group.applications,
    )


def recall(state: State) -> Memory:
    """Return what a watcher goes on from."""
    last = state.last
    if last is None:
        return Memory(runs=state.runs, tallies=state.tallies, failures=state.failures)
    snapshot = Snapshot(
        taken_at=last.taken_at,
        asked_at=last.asked_at,
        answered_at=last.answered_at,
        server=Server(version="", version_num=0, database="", started_at=last.started_at),
        sessions={pid: Session(pid, backend_start=start) for pid, start in last.backends.items()},
    )
    history = History(
        poll=last.poll,
        snapshot=snapshot,
        groups=tuple(map(_group, last.holds)),
        comparable_from=last.comparable_from,
        clock_step=last.clock_step,
        stepped_at_poll=last.stepped_at_poll,
    )
    return Memory(history, state.runs, last.waits, state.tallies, state.failures)


def _group(hold: SeenHold) -> HoldGroup:
    rows, seen = hold.rows, hold.session
    session = None
    if seen and rows.pid is not None:
        session = Session(rows.pid, backend_start=seen.backend_start, query_start=seen.query_start)
    return HoldGroup(
        rows=rows,
        keys=rows.keys,
        subjects=(),
        sighting=hold.sighting,
        session=session,
        backend_start=hold.backend_start,
        xact_start=hold.xact_start,
        applications=hold.applications,
    )

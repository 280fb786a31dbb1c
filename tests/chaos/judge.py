"""Judging what the witness saw by what the helper promises."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tests.chaos.server_log import CONNECTION_BROKE, LEASE_RAN_OUT
from tests.chaos.witness import BEAT, DEADLINE, KILL_AFTER, SLACK, STEP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.chaos.server_log import Session
    from tests.chaos.witness import Connection

# Seconds of a run's own running time: until it is told that it lost its lock to another, be the network
# silent or not; and until a program under `run` is gone when nothing is heard from the server any more.
TOLD_WITHIN = BEAT + DEADLINE + 1
GONE_WITHIN = BEAT + DEADLINE + SLACK + KILL_AFTER + 0.5

_RUNS = """
SELECT run.id, kind, session, extract(epoch FROM began)::float8, extract(epoch FROM told)::float8,
       extract(epoch FROM ended)::float8, coalesce(outcome, 'nothing'),
       array(SELECT extract(epoch FROM at)::float8 FROM step WHERE run = run.id ORDER BY at),
       EXISTS (SELECT FROM dropped WHERE starts_with(session, life || '.')),
       array(SELECT json_build_array(whole, extract(epoch FROM at), extract(epoch FROM until))
             FROM stop WHERE starts_with(session, life || '.'))
FROM run ORDER BY began
"""


class Stop(NamedTuple):
    """A time in which the chaos had stopped the process that holds the lock."""

    whole: bool  # with all that descends from it, such as the program under `run`
    at: float
    until: float


class Run(NamedTuple):
    """A run as the witness knows it. Times, here and in `Stop`, are seconds since the epoch."""

    number: int
    kind: str
    session: str
    began: float
    told: float | None
    ended: float | None
    outcome: str
    steps: Sequence[float]
    dropped: bool  # whether the chaos dropped a connection of this process
    stops: Sequence[Stop]

    @property
    def last_alive(self) -> float:
        return max(self.began, self.ended or 0, *self.steps[-1:])

    def __str__(self) -> str:
        return f"run {self.number} ({self.kind}, session {self.session}, in the end: {self.outcome})"


@dataclass
class Verdict:
    """What went wrong, in sentences, and what there was, in tables."""

    wrongs: list[str] = field(default_factory=list)
    counts: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    slowest: float = 0  # seconds of its own running time until a run was told


def read_witness(witness: Connection) -> list[Run]:
    """Return all runs in the order of their beginning."""
    return [
        Run._make([*row, [Stop(*stop) for stop in stops]])
        for *row, stops in witness.execute(_RUNS).fetchall()
    ]


def judge(runs: Sequence[Run], sessions: Mapping[str, Session]) -> Verdict:
    """Judge runs, in the order of their beginning, by the log of the server that kept their locks."""
    verdict = Verdict()
    for run in runs:
        verdict.counts["runs of"][run.kind] += 1
        verdict.counts["in the end"][run.outcome] += 1
        if run.outcome.startswith(("raised", "crashed", "nothing")):
            verdict.wrongs.append(f"{run} had the lock, and did not end as it should")
        if run.outcome == "done" and not _released_after(run, sessions[run.session]):
            verdict.wrongs.append(f"{run} was left believing that it held the lock to its end")
    judged = set[int]()
    for earlier, later in _overlaps(runs):
        # The later one's session was the first where it was lost before the run could say that it began.
        for loser, other in ((earlier, later), (later, earlier)):
            session = sessions[loser.session]
            if _lost(session, loser.began, by=other.began):
                if loser.number not in judged:
                    _judge_loser(loser, later.began, session, verdict)
                    judged.add(loser.number)
                break
        else:
            verdict.wrongs.append(f"{later} began while {earlier} ran, whose session was not lost")
    return verdict


def _overlaps(runs: Sequence[Run]) -> Iterator[tuple[Run, Run]]:
    for number, earlier in enumerate(runs, 1):
        for later in runs[number:]:
            if later.began > earlier.last_alive:
                break
            yield earlier, later


def _released_after(run: Run, session: Session) -> bool:
    return run.ended is not None and any(at + 0.001 > run.ended for at in session.releases)


def _lost(session: Session, began: float, *, by: float) -> bool:
    """Tell whether a session in which a run began ended by a time, without having released its locks."""
    released = any(began < at <= by for at in session.releases)
    return session.ended is not None and not released and all(at <= by for at in session.statements)


def _judge_loser(run: Run, since: float, session: Session, verdict: Verdict) -> None:
    """Judge a run that went on when another had begun, as it may, if it is told in time."""
    verdict.counts["went on beside another, since"][session.reason] += 1
    if "borrowed" in run.kind:
        return
    took = STEP * _steps(run, since, run.told or run.last_alive, run.stops)
    verdict.slowest = max(verdict.slowest, took)
    if took > TOLD_WITHIN:
        verdict.wrongs.append(f"{run} went on for {took:.1f} s after it had lost its lock to another")
    if not run.kind.startswith("run"):
        return
    if session.reason == LEASE_RAN_OUT:
        last_heard = max(at for at in session.statements if at <= since)
        had = STEP * _steps(run, last_heard, since, [stop for stop in run.stops if stop.whole])
        if had > GONE_WITHIN:
            verdict.wrongs.append(f"{run} had {had:.1f} s to end before its lease did, and had not")
    elif session.reason == CONNECTION_BROKE and not run.dropped:
        verdict.wrongs.append(f"{run} let go of its connection before its program was gone")


def _steps(run: Run, after: float, until: float, stops: Sequence[Stop]) -> int:
    """Count a run's steps in a time, without those that it made in spite of a stop."""
    steps = run.steps[bisect_right(run.steps, after) : bisect_left(run.steps, until)]
    return sum(not any(stop.at <= at <= stop.until for stop in stops) for at in steps)

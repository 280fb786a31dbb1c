"""How many holds of each configured job polling has seen, and how long those lasted that have ended.

A hold is a key in one mode, held by one process. What begins and ends between two polls is never seen, and
what is let go and taken again in between is one hold.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.model import HOLD_BOUNDS, Instant, Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings import Scene
    from pglock_inspect.model import Job

    _Totals = dict[str, dict[str, Tally]]
    _Open = dict[object, "OpenHolds"]


class OpenHolds(Struct, frozen=True):
    """Holds of a job that a process has had in one mode since the same poll, and still had in the last one.

    ``process`` is a pid, or the virtual transaction of a prepared one; ``seconds`` is the age of each.
    """

    job: str
    database: str
    process: int | str
    mode: str
    first_seen: Instant
    number: int
    seconds: float


class Tallies(Struct, frozen=True, omit_defaults=True):
    """What was counted, by job and then by database, and the holds that are still open.

    A job that names no database and was seen in none is counted under the empty name.
    """

    totals: Mapping[str, Mapping[str, Tally]] = {}
    open: tuple[OpenHolds, ...] = ()


def count_holds(tallies: Tallies, scene: Scene) -> Tallies:
    """Return the tallies after one more poll."""
    now, before = _by_identity(_open_holds(scene)), _by_identity(tallies.open)
    totals = {job.name: dict(tallies.totals.get(job.name, {})) for job in scene.jobs}
    # After a step of the clock all holds seem new, and nothing tells which of them are.
    if scene.history.stepped_at_poll != scene.history.poll:
        for identity, holds in now.items():
            if begun := max(0, holds.number - _number(before.get(identity))):
                tally = _tally(totals, holds)
                totals[holds.job][holds.database] = replace(tally, begun=tally.begun + begun)
        for identity, holds in before.items():
            ended = max(0, holds.number - _number(now.get(identity)))
            if ended and holds.job in totals:
                totals[holds.job][holds.database] = _lasted(_tally(totals, holds), ended, holds.seconds)
    return Tallies({job.name: _kept(totals[job.name], job, scene) for job in scene.jobs}, tuple(now.values()))


def _open_holds(scene: Scene) -> Iterator[OpenHolds]:
    for group, subject in scene.held_subjects:
        if subject.name and subject.name.job:
            rows, first_seen = group.rows, group.sighting.first_seen
            seconds = scene.held(group, subject).seconds
            yield OpenHolds(
                job=subject.name.job.name,
                database=scene.database_name(group),
                process=rows.virtual_transaction if rows.pid is None else rows.pid,
                mode=rows.mode,
                first_seen=first_seen,
                number=len(subject.keys),
                seconds=(scene.age(first_seen) or 0.0) if seconds is None else seconds,
            )


def _by_identity(several: Iterator[OpenHolds] | tuple[OpenHolds, ...]) -> _Open:
    """Return holds by what two polls have to agree on for them to be the same; like ones put together."""
    found: _Open = {}
    for holds in several:
        identity = holds.job, holds.database, holds.process, holds.mode, holds.first_seen
        same = found.get(identity)
        found[identity] = replace(holds, number=holds.number + same.number) if same else holds
    return found


def _number(holds: OpenHolds | None) -> int:
    return holds.number if holds else 0


def _tally(totals: _Totals, holds: OpenHolds) -> Tally:
    return totals[holds.job].get(holds.database, Tally())


def _lasted(tally: Tally, number: int, seconds: float) -> Tally:
    lasted = list(tally.lasted)
    lasted[bisect_left(HOLD_BOUNDS, seconds)] += number
    return replace(tally, lasted=tuple(lasted), seconds=tally.seconds + number * seconds)


def _kept(totals: dict[str, Tally], job: Job, scene: Scene) -> Mapping[str, Tally]:
    """Return what was counted of a job, without databases that are gone: there may be new ones every day."""
    if not totals:
        return {job.database or "": Tally()}
    if len(totals) == 1:
        return totals
    there = {database.name for database in scene.snapshot.databases.values()}
    seen = {database: tally for database, tally in totals.items() if tally.begun or database == job.database}
    return {name: tally for name, tally in seen.items() if name in there} or seen

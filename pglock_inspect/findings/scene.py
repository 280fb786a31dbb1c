"""What the rules look at: everything held and waited for, with the limits that apply."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from pglock_inspect import ages
from pglock_inspect.holds import History
from pglock_inspect.model import HoldGroup, Job, Limits, OtherWait, Snapshot
from pglock_inspect.runs import JobRuns
from pglock_inspect.waits import SeenWait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Held, Instant, Name, Scope, Subject

# Table "Conflicting Lock Modes" of PostgreSQL's documentation, 13.3.1. The SQL functions take only
# ShareLock and ExclusiveLock; an extension may take any.
_STRENGTH = (
    "AccessShareLock",
    "RowShareLock",
    "RowExclusiveLock",
    "ShareUpdateExclusiveLock",
    "ShareLock",
    "ShareRowExclusiveLock",
    "ExclusiveLock",
    "AccessExclusiveLock",
)
_CONFLICTS: dict[str, frozenset[str]] = {
    "AccessShareLock": frozenset(_STRENGTH[7:]),
    "RowShareLock": frozenset(_STRENGTH[6:]),
    "RowExclusiveLock": frozenset(_STRENGTH[4:]),
    "ShareUpdateExclusiveLock": frozenset(_STRENGTH[3:]),
    "ShareLock": frozenset((*_STRENGTH[2:4], *_STRENGTH[5:])),
    "ShareRowExclusiveLock": frozenset(_STRENGTH[2:]),
    "ExclusiveLock": frozenset(_STRENGTH[1:]),
    "AccessExclusiveLock": frozenset(_STRENGTH),
}

Place = tuple[int, int, int]
"""Where locks meet: database oid, objsubid, packed key."""


class Wait(NamedTuple):
    """What a process waits for, an advisory lock or another, and for how many seconds."""

    seconds: float | None
    advisory: HoldGroup | None = None
    other: OtherWait | None = None


class Scene(Struct, frozen=True, dict=True):
    """One poll and what led up to it, under the limits that people set."""

    history: History
    limits: Limits = Limits()
    jobs: tuple[Job, ...] = ()
    runs: Mapping[str, JobRuns] = {}
    other_waits: Mapping[int, SeenWait] = {}

    @property
    def snapshot(self) -> Snapshot:
        """The last poll."""
        assert self.history.snapshot is not None
        return self.history.snapshot

    @cached_property
    def groups(self) -> tuple[HoldGroup, ...]:
        """All that is held or waited for, without stamps: they are shown with the lock they are about."""
        return tuple(group for group in self.history.groups if not group.is_stamp)

    @cached_property
    def holds(self) -> tuple[HoldGroup, ...]:
        """The groups whose locks are granted."""
        return tuple(group for group in self.groups if group.rows.granted)

    @cached_property
    def waits(self) -> tuple[HoldGroup, ...]:
        """The groups that wait, those that have waited longest first."""
        waiting = [group for group in self.groups if not group.rows.granted]
        return tuple(sorted(waiting, key=lambda group: (-(self.waited(group) or 0.0), group.rows.pid or 0)))

    @cached_property
    def waiters(self) -> Mapping[Place, tuple[HoldGroup, ...]]:
        """Who waits for a key, those that have waited longest first."""
        waiters: dict[Place, tuple[HoldGroup, ...]] = {}
        for group in self.waits:
            for place in places(group):
                waiters[place] = (*waiters.get(place, ()), group)
        return waiters

    @cached_property
    def contended(self) -> Mapping[Place, tuple[HoldGroup, ...]]:
        """Who holds a key that somebody waits for."""
        wanted: dict[tuple[int, int], set[int]] = {}
        for database, objsubid, key in self.waiters:
            wanted.setdefault((database, objsubid), set()).add(key)
        holders: dict[Place, tuple[HoldGroup, ...]] = {}
        for group in self.holds:
            where = (group.rows.database, group.rows.objsubid)
            for key in wanted.get(where, set()) & group.keys:
                holders[*where, key] = (*holders.get((*where, key), ()), group)
        return holders

    def blockers(self, waiter: HoldGroup) -> tuple[HoldGroup, ...]:
        """Return the holders whose mode conflicts with what a waiter asks for.

        A session never blocks itself: it may hold a key in share mode and wait for it in exclusive mode.
        """
        conflicting = _CONFLICTS.get(waiter.rows.mode, frozenset(_STRENGTH))
        return tuple(
            holder
            for place in places(waiter)
            for holder in self.contended.get(place, ())
            if holder.rows.mode in conflicting and holder.rows.pid != waiter.rows.pid
        )

    def ahead(self, group: HoldGroup) -> tuple[int, ...]:
        """Return what the server said is in a process's way; empty where it was not asked."""
        return self.snapshot.blocking.get(group.rows.pid, ()) if group.rows.pid is not None else ()

    def wait_of(self, pid: int | None) -> Wait | None:
        """Return what a process waits for, None where it does not."""
        return self._waits_by_pid.get(pid) if pid is not None else None

    @cached_property
    def _waits_by_pid(self) -> Mapping[int, Wait]:
        waits = {}
        for group in self.waits:
            if group.rows.pid is not None:
                waits[group.rows.pid] = Wait(self.waited(group), advisory=group)
        for other in self.snapshot.other_waits:
            waits[other.pid] = Wait(self.age(other.waitstart or self._seen_since(other.pid)), other=other)
        return waits

    def _seen_since(self, pid: int) -> Instant | None:
        """Return the first poll that showed a wait, None where this one is the first."""
        seen = self.other_waits.get(pid)
        return seen.first_seen if seen and seen.first_seen < self.snapshot.taken_at else None

    def roots(self, pid: int | None) -> tuple[int, ...]:
        """Return who blocks a process in the end and waits for nobody; 0 is a prepared transaction."""
        blocking = self.snapshot.blocking
        seen: dict[int, None] = {}
        ahead = list(blocking.get(pid, ())) if pid is not None else []
        while ahead:
            blocker = ahead.pop()
            if blocker not in seen:
                seen[blocker] = None
                ahead += blocking.get(blocker, ())
        return tuple(sorted(blocker for blocker in seen if not blocking.get(blocker)))

    def held(self, group: HoldGroup, subject: Subject) -> Held:
        """Return how long those keys of a group have been held, by their scope where it is known."""
        scope = subject.name.scope if subject.name else None
        held = self._ages.get((id(group), scope))
        if held is None:
            held = self._ages[id(group), scope] = ages.held(group, self.history, scope)
        return held

    @cached_property
    def _ages(self) -> dict[tuple[int, Scope | None], Held]:
        return {}

    def waited(self, group: HoldGroup) -> float | None:
        """Return for how many seconds a group has waited, None where nothing tells."""
        return ages.waited(group, self.history)

    def age(self, instant: Instant | None) -> float | None:
        """Return the seconds since an instant of the server's clock, None where that is not known."""
        return ages.age(instant, self.history)

    def limits_of(self, name: Name | None) -> Limits:
        """Return the limits that apply to a name, or to a key without one."""
        return name.job.limits if name and name.job else self.limits

    def database_name(self, group: HoldGroup) -> str:
        """Return the name of the database that a lock belongs to; the oid where its name is not known."""
        return self.name_of_database(group.rows.database)

    def name_of_database(self, oid: int) -> str:
        """Return the name of a database; the oid where its name is not known."""
        database = self.snapshot.databases.get(oid)
        return database.name if database else str(oid)

    @cached_property
    def held_subjects(self) -> tuple[tuple[HoldGroup, Subject], ...]:
        """Every group of holds once for each name in it, and once for its keys without a name."""
        return tuple((group, subject) for group in self.holds for subject in group.subjects)

    @cached_property
    def aged_subjects(self) -> tuple[tuple[HoldGroup, Subject, Held], ...]:
        """Those of them that can have reached their limit, with how long they have been held."""
        return tuple(
            (group, subject, self.held(group, subject))
            for group, subject in self.held_subjects
            if not self._is_young(group, self.limits_of(subject.name).max_held)
        )

    def _is_young(self, group: HoldGroup, max_held: float) -> bool:
        """Whether a lock was surely not held yet so long ago, which is quicker told than its age."""
        for not_yet in (group.sighting.absent_at, group.backend_start):
            if not_yet is not None:
                age = self.age(not_yet)
                if age is not None and age < max_held:
                    return True
        return False


def places(group: HoldGroup) -> Iterator[Place]:
    """Yield the places of a group's keys."""
    for key in group.keys:
        yield group.rows.database, group.rows.objsubid, key


def only_key(group: HoldGroup, keys: frozenset[int]) -> AdvisoryKey | None:
    """Return the key where there is one, None where there are several."""
    return group.rows.key(next(iter(keys))) if len(keys) == 1 else None

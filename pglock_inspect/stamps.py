"""Stamps: locks by which a holder says when it took another one.

A stamp is a shared two-key lock of the same session: the low 32 bits of the key that it is about, then the
second (Unix time modulo 2^32) in which that was taken. It is a claim, and counts only where nothing that is
known speaks against it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from pglock_inspect.ages import STAMP_SECONDS, held
from pglock_inspect.holds import History, Settled, StampMismatch
from pglock_inspect.model import Instant, Subject, seconds_between, to_instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pglock_inspect.model import Held, HoldGroup, LockRows, Scope

    Hold = tuple[HoldGroup, int]
    """One key of a group."""

_LOW = (1 << 32) - 1
_LONG = 1 << 30  # seconds
_TICK = round(STAMP_SECONDS * 1_000_000)
_UNIX_EPOCH = to_instant(datetime(1970, 1, 1, tzinfo=UTC))


def settle_stamps(history: History) -> History:
    """Return the history with every stamp that counts joined to its lock, and the others told of."""
    stamping = {_process(group) for group in history.groups if group.stamp or _may_stamp(group.rows)}
    groups: list[HoldGroup] = []
    by_process: dict[tuple[object, int], list[HoldGroup]] = {}
    for group in history.groups if stamping else ():
        if group.rows.granted and (process := _process(group)) in stamping:
            by_process.setdefault(process, []).append(group)
        else:
            groups.append(group)
    settled: dict[object, Settled] = {}
    for process, its_groups in by_process.items():
        before = history.settled.get(process)
        as_it_was = before if before and _is_as_it_was(its_groups, before, history) else None
        settled[process] = as_it_was or _settle(its_groups, before, history)
        groups += settled[process].groups
    return replace(
        history,
        groups=tuple(groups) if stamping else history.groups,
        settled=settled,
        stamp_mismatches=tuple(mismatch for each in settled.values() for mismatch in each.mismatches),
    )


def _may_stamp(rows: LockRows) -> bool:
    return rows.granted and rows.objsubid == 2 and rows.mode == "ShareLock"  # noqa: PLR2004 - two keys


def _process(group: HoldGroup) -> tuple[object, int]:
    rows = group.rows
    return rows.virtual_transaction if rows.pid is None else rows.pid, rows.database


def _is_as_it_was(groups: Sequence[HoldGroup], before: Settled, history: History) -> bool:
    """Whether the groups of a process are those that were settled, and nothing contradicts a stamp by now."""
    return (
        not before.mismatches
        and {*groups} == {*before.groups}
        and all(
            group.stamp is None or _is_old_enough(group.stamp, held(group, history), history)
            for group in groups
        )
    )


def _settle(groups: Sequence[HoldGroup], before: Settled | None, history: History) -> Settled:
    """Settle the stamps of one process in one database."""
    earliest = _earliest(groups[0].rows, history)
    key_sets = {(id(group.rows.keys), _may_stamp(group.rows)): group.rows.keys for group in groups}
    if before and before.key_sets.keys() == key_sets.keys():
        relevant = before.relevant
    else:
        relevant = _relevant(key_sets, earliest, history)
    plain = [_part(group, group.keys) for group in groups]
    stamps: dict[int, list[_Stamp]] = {}
    locks: dict[int, list[Hold]] = {}
    for group in plain:
        for key in group.keys & relevant:
            locks.setdefault(key & _LOW, []).append((group, key))
            instant = _instant(key, earliest) if _may_stamp(group.rows) else None
            if instant is not None:
                stamps.setdefault(key >> 32, []).append(_Stamp(group, key, instant))
    mismatches: list[StampMismatch] = []
    stamped: dict[int, dict[int, Instant]] = {}
    counted: dict[int, set[int]] = {}
    for low, candidates in stamps.items():
        about = locks.get(low, [])
        problem = _problem(candidates, about, history)
        if problem is None:
            (group, key), stamp = about[0], candidates[0]
            stamped.setdefault(id(group), {})[key] = stamp.instant
            counted.setdefault(id(stamp.group), set()).add(stamp.key)
        else:
            mismatches += (
                StampMismatch(stamp.group, stamp.key, problem)
                for stamp in candidates
                if about or _was_taken_in_its_second(stamp, history)
            )
    parts = [
        part
        for group in plain
        for part in _split(group, stamped.get(id(group), {}), frozenset(counted.get(id(group), ())))
    ]
    return Settled(tuple(parts), tuple(mismatches), key_sets, relevant)


class _Stamp(NamedTuple):
    """A lock that looks like a stamp, and when it says that another one was taken."""

    group: HoldGroup
    key: int
    instant: Instant


def _earliest(rows: LockRows, history: History) -> int:
    """Return the first second (Unix time) that a stamp of a process may name."""
    assert history.snapshot is not None
    started_at = history.snapshot.server.started_at
    if started_at is None or rows.pid is None:  # a prepared transaction outlives its server
        return (history.snapshot.taken_at - _UNIX_EPOCH) // 1_000_000 - _LONG
    return (started_at - _UNIX_EPOCH) // 1_000_000


def _instant(key: int, earliest: int) -> Instant | None:
    """Return the second that a key names if it is a stamp; None where it cannot be one."""
    after = (key - earliest) & _LOW
    return Instant(_UNIX_EPOCH + (earliest + after) * 1_000_000) if after < 2 * _LONG else None


def _relevant(
    key_sets: Mapping[tuple[int, bool], frozenset[int]], earliest: int, history: History
) -> frozenset[int]:
    """Return, of all keys of a process, those that may be stamps, and those that they may be about.

    What names a second to come when it is first seen, and is about no lock, is no stamp later either.
    """
    assert history.snapshot is not None
    latest = history.snapshot.taken_at + _TICK
    stamps = {
        key: instant
        for (_, may_stamp), keys in key_sets.items()
        if may_stamp
        for key in keys
        if (instant := _instant(key, earliest)) is not None
    }
    lows = {key >> 32 for key in stamps}
    locks = {key for keys in key_sets.values() for key in keys if key & _LOW in lows}
    ends = {key & _LOW for key in locks}
    return frozenset(
        locks | {key for key, instant in stamps.items() if instant <= latest or key >> 32 in ends}
    )


def _problem(stamps: Sequence[_Stamp], locks: Sequence[Hold], history: History) -> str | None:
    """Return why stamps that may be about some locks do not count, None where one does."""
    if not locks:
        return "the session holds no lock that it could be about"
    if len(locks) > 1:
        return f"{len(locks)} locks of the session end in these 32 bits"
    if len(stamps) > 1:
        return f"{len(stamps)} stamps are about one lock"
    if locks[0] == stamps[0][:2]:
        return "it could be about itself only"
    return _contradiction(stamps[0], locks[0], history)


def _was_taken_in_its_second(stamp: _Stamp, history: History) -> bool:
    """Whether a lock, which is about no other, has been held since the second that it names."""
    first_seen = stamp.group.sighting.first_seen
    return (
        stamp.instant <= first_seen + _TICK
        and _contradiction(stamp, (stamp.group, stamp.key), history) is None
    )


def _contradiction(stamp: _Stamp, lock: Hold, history: History) -> str | None:
    """Return what speaks against a stamp for a lock that was taken in its second."""
    assert history.snapshot is not None
    now = history.snapshot.taken_at
    if history.comparable_from is not None and stamp.instant < history.comparable_from:
        return "the server's clock has stepped since"
    if stamp.instant > now + _TICK:
        return "it names a second to come"
    absent_at = stamp.group.sighting.absent_at
    if absent_at is not None and stamp.instant <= absent_at - _TICK:
        return "it was taken later than it says"
    group, key = lock
    proven = held(group, history, _scope(group, key))
    too_early = proven.at_most is not None and (
        seconds_between(stamp.instant, now) - STAMP_SECONDS > proven.at_most
    )
    if too_early or not _is_old_enough(stamp.instant, proven, history):
        return "its time contradicts what is proven"
    return None


def _is_old_enough(stamp: Instant, proven: Held, history: History) -> bool:
    assert history.snapshot is not None
    claimed = seconds_between(stamp, history.snapshot.taken_at)
    return proven.at_least is None or claimed >= proven.at_least


def _scope(group: HoldGroup, key: int) -> Scope | None:
    return next((s.name.scope for s in group.subjects if s.name and key in s.keys), None)


def _split(group: HoldGroup, stamped: Mapping[int, Instant], counted: frozenset[int]) -> Iterator[HoldGroup]:
    """Divide a group by what stamps say of its keys."""
    if not stamped and not counted:
        yield group
        return
    for key, stamp in stamped.items():
        if key not in counted:
            yield _part(group, frozenset({key}), stamp=stamp)
    if counted:
        yield _part(group, counted, is_stamp=True)
    rest = group.keys.difference(stamped, counted)
    if rest:
        yield _part(group, rest)


def _part(
    group: HoldGroup, keys: frozenset[int], *, stamp: Instant | None = None, is_stamp: bool = False
) -> HoldGroup:
    if (len(keys), stamp, is_stamp) == (len(group.keys), group.stamp, group.is_stamp):
        return group
    subjects = group.subjects
    if len(keys) < len(group.keys):
        subjects = tuple(Subject(s.name, s.keys & keys) for s in subjects if s.keys & keys)
    return replace(group, keys=keys, subjects=subjects, stamp=stamp, is_stamp=is_stamp)

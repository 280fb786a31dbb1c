"""Stamps: locks by which a holder says when it took another one.

A stamp is a shared two-key lock of the same session: the low 32 bits of the key that it is about, then the
second (Unix time modulo 2^32) in which that was taken. It is a claim, and counts only where nothing that is
known speaks against it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pglock_inspect import holds
from pglock_inspect.holds import STAMP_SECONDS, History, StampMismatch
from pglock_inspect.model import Instant, Subject, seconds_between, to_instant

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from pglock_inspect.model import HoldGroup, Scope

    Hold = tuple[HoldGroup, int]
    """One key of a group."""
    _Halves = dict[int, list[Hold]]

_MODULUS = 1 << 32
_LOW = _MODULUS - 1
_UNIX_EPOCH = to_instant(datetime(1970, 1, 1, tzinfo=UTC))


def settle_stamps(history: History) -> History:
    """Return the history with every stamp that counts joined to its lock, and the others told of."""
    stamping = {_process(group) for group in history.groups if _may_stamp(group)}
    if not stamping:
        return history
    groups: list[HoldGroup] = []
    by_process: dict[object, list[HoldGroup]] = {}
    for group in history.groups:
        if group.rows.granted and _process(group) in stamping:
            by_process.setdefault(_process(group), []).append(group)
        else:
            groups.append(group)
    mismatches: list[StampMismatch] = []
    for its_groups in by_process.values():
        groups += _settle_process(its_groups, history, mismatches)
    return replace(history, groups=tuple(groups), stamp_mismatches=tuple(mismatches))


def _may_stamp(group: HoldGroup) -> bool:
    rows = group.rows
    return rows.granted and rows.objsubid == 2 and rows.mode == "ShareLock"  # noqa: PLR2004 - two keys


def _process(group: HoldGroup) -> tuple[object, int]:
    rows = group.rows
    return rows.virtual_transaction if rows.pid is None else rows.pid, rows.database


def _settle_process(
    groups: list[HoldGroup], history: History, mismatches: list[StampMismatch]
) -> Iterable[HoldGroup]:
    """Settle the stamps of one process in one database; adds to ``mismatches``."""
    stamps = _by_half([group for group in groups if _may_stamp(group)], shift=32)
    locks = _by_half(groups, only=stamps)
    stamped: dict[int, dict[int, Instant]] = {}
    counted: dict[int, set[int]] = {}
    for low, candidates in stamps.items():
        problem = _problem(candidates, locks.get(low, []), history)
        if problem is None:
            (group, key), (stamp_group, stamp_key) = locks[low][0], candidates[0]
            stamped.setdefault(id(group), {})[key] = _instant(stamp_key, history)
            counted.setdefault(id(stamp_group), set()).add(stamp_key)
        elif problem:
            mismatches += (StampMismatch(group, key, problem) for group, key in candidates)
    for group in groups:
        yield from _split(group, stamped.get(id(group), {}), frozenset(counted.get(id(group), ())))


def _by_half(
    groups: Iterable[HoldGroup], *, shift: int = 0, only: Container[int] = range(_MODULUS)
) -> _Halves:
    """Return the keys of groups by their low half, or by their high half with ``shift`` 32."""
    by_half: _Halves = {}
    for group in groups:
        for key in group.keys:
            half = key >> shift & _LOW
            if half in only:
                by_half.setdefault(half, []).append((group, key))
    return by_half


def _problem(candidates: list[Hold], locks: list[Hold], history: History) -> str | None:
    """Return why stamps for one low half do not count, None where one does; empty if nothing says stamp."""
    if not locks:
        alive = [hold for hold in candidates if _fits(_instant(hold[1], history), hold, history)]
        return "the session holds no lock that it could be about" if alive else ""
    if len(locks) > 1:
        return f"{len(locks)} locks of the session end in these 32 bits"
    if len(candidates) > 1:
        return f"{len(candidates)} stamps are about one lock"
    if locks[0] == candidates[0]:
        return "it could be about itself only"
    if not _fits(_instant(candidates[0][1], history), locks[0], history):
        return "its time contradicts what is proven"
    return None


def _instant(stamp_key: int, history: History) -> Instant:
    """Return the last instant not in the future by more than a second that a stamp may mean."""
    assert history.snapshot is not None
    latest = (history.snapshot.taken_at - _UNIX_EPOCH) // 1_000_000 + 1
    second = latest - (latest - (stamp_key & _LOW)) % _MODULUS
    return Instant(_UNIX_EPOCH + second * 1_000_000)


def _fits(stamp: Instant, hold: Hold, history: History) -> bool:
    """Whether a lock taken in that second agrees with all that is proven of it."""
    assert history.snapshot is not None
    group, key = hold
    if history.comparable_from is not None and stamp < history.comparable_from:
        return False
    proven = holds.held(group, history, _scope(group, key))
    claimed = seconds_between(stamp, history.snapshot.taken_at)
    return (proven.at_most is None or claimed - STAMP_SECONDS <= proven.at_most) and (
        proven.at_least is None or claimed >= proven.at_least
    )


def _scope(group: HoldGroup, key: int) -> Scope | None:
    return next((s.name.scope for s in group.subjects if s.name and key in s.keys), None)


def _split(group: HoldGroup, stamped: Mapping[int, Instant], counted: frozenset[int]) -> Iterable[HoldGroup]:
    """Divide a group by what stamps say of its keys."""
    for key, stamp in stamped.items():
        if key not in counted:
            yield _part(group, frozenset({key}), stamp=stamp)
    if counted:
        yield _part(group, counted, is_stamp=True)
    rest = group.keys - stamped.keys() - counted
    if rest:
        yield _part(group, rest) if len(rest) < len(group.keys) else group


def _part(
    group: HoldGroup, keys: frozenset[int], *, stamp: Instant | None = None, is_stamp: bool = False
) -> HoldGroup:
    subjects = tuple(
        Subject(subject.name, subject.keys & keys) for subject in group.subjects if subject.keys & keys
    )
    return replace(group, keys=keys, subjects=subjects, stamp=stamp, is_stamp=is_stamp)

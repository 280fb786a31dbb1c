"""Locks as rows: what they are found again by, and which come first."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, overload

from pglock_inspect.model import SEVERITIES, Lock

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Alike

    _Rank = tuple[int, bool, float, str]
    _Tie = tuple[int, str, int, str]
    """What decides between locks of one rank, after both halves of their key."""

_RANK = {None: 0} | {severity: rank for rank, severity in enumerate(SEVERITIES, start=1)}


class Identity(NamedTuple):
    """What makes a lock the same lock in two reports; a waiter that got its lock is still the same."""

    key: AdvisoryKey
    database: str | None
    mode: str
    holder: int | str | None


def identity(lock: Lock) -> Identity:
    """Return what to find a lock by in the next report."""
    return Identity(lock.key, lock.database, lock.mode, lock.prepared.gid if lock.prepared else lock.pid)


class Locks(Sequence[Lock]):
    """Locks worst first, then holders before waiters, then longest first; equals never swap.

    Each is made when it is looked at, and what is in order is not sorted again if the ``before`` of the last
    report show the same: those that nobody looks at cost next to nothing.
    """

    def __init__(self, alike: Iterable[Alike] = (), before: Locks | None = None) -> None:
        ranks: dict[_Rank, list[Alike]] = {}
        for each in alike:
            ranks.setdefault(_rank(each.lock), []).append(each)
        self.orders: dict[Hashable, _Order] = {}
        self._runs: list[tuple[Sequence[Alike], _Order]] = []
        for _, tied in sorted(ranks.items(), key=itemgetter(0)):
            which = tuple((each.keys, *_tie(each.lock)) for each in tied)
            order = before.orders.get(which) if before else None
            order = self.orders[which] = order or _in_order(tied)
            self._runs.append((tied, order))
        self._starts = [0, *accumulate(len(order.keys) for _, order in self._runs)]

    def __len__(self) -> int:
        """Return how many there are."""
        return self._starts[-1]

    @overload
    def __getitem__(self, index: int) -> Lock: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Lock]: ...
    def __getitem__(self, index: int | slice) -> Lock | Sequence[Lock]:
        """Return a lock, or some."""
        places = range(len(self))[index]
        return [self._at(place) for place in places] if isinstance(places, range) else self._at(places)

    def where(self, fits: Callable[[Lock], bool]) -> Iterator[Lock]:
        """Yield those that fit, for which their key must not matter."""
        for tied, order in self._runs:
            fitting = {number for number, each in enumerate(tied) if fits(each.lock)}
            if fitting:
                yield from (
                    tied[number].at(packed)
                    for packed, number in zip(order.keys, order.numbers, strict=True)
                    if number in fitting
                )

    def find(self, wanted: Identity) -> int | None:
        """Return where a lock stands; None where there is none like it."""
        packed = wanted.key.packed
        for start, (tied, order) in zip(self._starts, self._runs, strict=False):
            for number, each in enumerate(tied):
                if packed in each.keys and identity(each.at(packed)) == wanted:
                    place = bisect_left(order.keys, packed)
                    while order.keys[place] != packed or order.numbers[place] != number:
                        place += 1
                    return start + place
        return None

    def _at(self, place: int) -> Lock:
        run = bisect_right(self._starts, place) - 1
        tied, order = self._runs[run]
        place -= self._starts[run]
        return tied[order.numbers[place]].at(order.keys[place])


class _Order(NamedTuple):
    """Keys (packed) in order, and for each the number of those that it is one of."""

    keys: Sequence[int]
    numbers: Sequence[int]


def _in_order(tied: Sequence[Alike]) -> _Order:
    if len(tied) == 1:
        return _Order(sorted(tied[0].keys), bytes(len(tied[0].keys)))
    ties = [(*_tie(each.lock), number) for number, each in enumerate(tied)]
    in_order = sorted((packed, *tie) for each, tie in zip(tied, ties, strict=True) for packed in each.keys)
    return _Order([packed for packed, *_ in in_order], [tie[-1] for tie in in_order])


def seconds_of(lock: Lock) -> float | None:
    """Return how long a lock has been held, or waited for."""
    return lock.held.seconds if lock.held else lock.waited_seconds


def worst_first(lock: Lock) -> tuple[_Rank, int, _Tie]:
    """Return what `Locks` are sorted by."""
    return _rank(lock), lock.key.packed, _tie(lock)


def _rank(lock: Lock) -> _Rank:
    seconds = seconds_of(lock)
    return (
        -_RANK[lock.severity],
        not lock.granted,
        1.0 if seconds is None else -seconds,
        lock.database or "",
    )


def _tie(lock: Lock) -> _Tie:
    return lock.key.objsubid, lock.mode, lock.pid or 0, lock.prepared.gid if lock.prepared else ""

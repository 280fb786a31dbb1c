"""What was taken and released since the view was opened, as far as polls saw it."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import seconds_between
from pglock_inspect.top.rows import identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pglock_inspect.model import Alike, Instant, Lock, Report
    from pglock_inspect.top.rows import Identity

    _Place = Identity
    """That of all locks of a process in one mode, for which both halves of the key are 0."""

_MOST = 1_000


class Hold(NamedTuple):
    """A hold that began or ended while polls were watching.

    ``lock`` is as it was last seen. ``taken_at`` is the first poll with it, None where the first of all polls
    had it; ``released_at`` the first poll without it, None while it is held.
    """

    lock: Lock
    taken_at: Instant | None
    released_at: Instant | None = None

    @property
    def changed_at(self) -> Instant:
        """When it was last news."""
        instant = self.released_at or self.taken_at
        assert instant is not None
        return instant

    @property
    def seconds(self) -> float | None:
        """How long it was held when it was last seen, as far as is known."""
        held = self.lock.held
        if held and held.seconds is not None:
            return held.seconds
        if self.taken_at is None or self.released_at is None:
            return None
        return seconds_between(self.taken_at, self.released_at)


class Past:
    """Remembers which locks were held from poll to poll: those of now, and the last ones that ended."""

    def __init__(self) -> None:
        self._held: dict[_Place, list[Alike]] | None = None
        self._taken: dict[tuple[_Place, int], Instant] = {}
        self._ended: deque[Hold] = deque(maxlen=_MOST)

    def note(self, report: Report) -> tuple[Hold, ...]:
        """Take in a report that shows the server; return the holds, the newest change first."""
        now: dict[_Place, list[Alike]] = {}
        for alike in report.alike:
            if alike.lock.granted:
                now.setdefault(_place(alike.lock), []).append(alike)
        before, self._held = self._held, now
        if before is not None:
            for place in {**before, **now}:
                self._compare(place, before.get(place, []), now.get(place, []), report.taken_at)
        newest = islice(reversed(self._taken.items()), _MOST)
        running = [Hold(_lock(now[place], packed), taken_at) for (place, packed), taken_at in newest]
        return tuple(sorted([*running, *self._ended], key=_newest_first))

    def _compare(
        self, place: _Place, before: Sequence[Alike], now: Sequence[Alike], taken_at: Instant
    ) -> None:
        sets = [alike.keys for alike in before], [alike.keys for alike in now]
        if sets[0] == sets[1]:
            return  # at once, where they are the very objects
        old, new = (frozenset[int]().union(*keys) for keys in sets)
        for packed in old - new:
            self._ended.append(Hold(_lock(before, packed), self._taken.pop((place, packed), None), taken_at))
        self._taken |= dict.fromkeys(((place, packed) for packed in new - old), taken_at)


def _place(lock: Lock) -> _Place:
    return identity(lock)._replace(key=AdvisoryKey.unpack(0, lock.key.objsubid))


def _lock(among: Iterable[Alike], packed: int) -> Lock:
    return next(alike.at(packed) for alike in among if packed in alike.keys)


def holds_like(lock: Lock, holds: tuple[Hold, ...]) -> list[Hold]:
    """Return the holds of the same key in the same database."""
    return [hold for hold in holds if (hold.lock.key, hold.lock.database) == (lock.key, lock.database)]


def _newest_first(hold: Hold) -> tuple[int, str, Identity]:
    which = identity(hold.lock)
    return -hold.changed_at, hold.lock.database or "", which._replace(database=None, holder=str(which.holder))

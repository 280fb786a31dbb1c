"""Questions to the database that a session is connected to, whose answers name keys.

They are asked only while a key has no name, or one that only known software gives, and a poll never fails by
them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from pglock_inspect.postgres.known_locks import KnownLocks
from pglock_inspect.postgres.names_query import NamesQuery
from pglock_inspect.schemes import codec_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import psycopg

    from pglock_inspect.holds import History
    from pglock_inspect.model import Database, HoldGroup, Name, Snapshot
    from pglock_inspect.names import Learner
    from pglock_inspect.names.traces import Traces

_MOST_KEYS = 1_000  # of one process in one mode


class Lookups:
    """What a connection is asked beside its snapshots; not for two threads at once.

    ``names_query`` is the user's query for names. ``read_tables``: tables of known software may be read, for
    the keys in question only. ``clock`` is a monotonic one, in seconds.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        *,
        names_query: str | None = None,
        read_tables: bool = False,
        clock: Callable[[], float],
    ) -> None:
        self._names_query = NamesQuery(connection, names_query) if names_query else None
        self._known = KnownLocks(connection, read_tables=read_tables, clock=clock)
        self._traces: Traces | None = None
        self._names: Mapping[tuple[int, int], Mapping[int, Name]] = {}
        self._asked: dict[int, frozenset[int]] = {}
        self._names_due, self._traces_due, self._all_due, self._new_due = (
            _Timer(seconds, clock) for seconds in (60, 300, 60, 5)
        )

    @property
    def problem(self) -> str | None:
        """What is wrong with ``names_query``, in a sentence."""
        return self._names_query.problem if self._names_query else None

    def ask(self, learner: Learner, history: History) -> None:
        """Tell the learner what the database knows of the keys that could do with a name."""
        assert history.snapshot is not None
        here = _connected_to(history.snapshot)
        if here is None or not any(True for group in history.groups for _ in _nameless(group)):
            return
        if self._names_query and self._names_due():
            names = self._names_query.names(codec_of(here.encoding))
            if names is not None:
                learner.told(names)
        if self._traces_due():
            self._traces = self._known.traces(here) or self._traces
        all_due, new_due = self._all_due(), self._new_due()
        if all_due:
            self._names, self._asked = {}, {}
        if all_due or new_due:
            self._look_up(here, [(group, keys) for group in history.groups for keys in _nameless(group)])
        learner.found(self._traces, self._names)

    def _look_up(self, here: Database, nameless: Iterable[tuple[HoldGroup, frozenset[int]]]) -> None:
        keys: dict[int, set[int]] = {}
        for group, its_keys in nameless:
            if group.rows.database == here.oid and self._asked.get(id(its_keys)) is not its_keys:
                self._asked[id(its_keys)] = its_keys
                keys.setdefault(group.rows.objsubid, set()).update(islice(its_keys, _MOST_KEYS))
        if keys and self._traces:
            found = self._known.names(keys, here, self._traces)
            for objsubid, names in found.items():
                form = here.oid, objsubid
                self._names = {**self._names, form: {**self._names.get(form, {}), **names}}


class _Timer:
    """Says whether so many seconds have passed since it last said so; at first they have."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds, self._clock = seconds, clock
        self._at = clock()

    def __call__(self) -> bool:
        now = self._clock()
        due = now >= self._at
        if due:
            self._at = now + self._seconds
        return due


def _nameless(group: HoldGroup) -> Iterator[frozenset[int]]:
    for subject in group.subjects:
        if not group.is_stamp and (subject.name is None or subject.name.source == "known"):
            yield subject.keys


def _connected_to(snapshot: Snapshot) -> Database | None:
    name = snapshot.server.database
    return next((database for database in snapshot.databases.values() if database.name == name), None)

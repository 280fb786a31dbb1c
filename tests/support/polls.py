"""Snapshots and histories made by hand. Times are seconds since an hour that does not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pglock_inspect.findings import Scene
from pglock_inspect.holds import History, fold
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Database, Instant, Limits, LockRows, Prepared, Server, Session, Snapshot
from pglock_inspect.names import ConfiguredNames, NameBook
from tests.support.reports import NOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pglock_inspect.keys import Value
    from pglock_inspect.model import Job

SERVER = Server("18.6", 18_00_06, "app", started_at=NOW)
DATABASES = {5: Database(5, "app"), 6: Database(6, "other")}
EXCLUSIVE, SHARE = "ExclusiveLock", "ShareLock"


def at(seconds: float) -> Instant:
    return Instant(NOW + round(seconds * 1_000_000))


def packed(value: Value | AdvisoryKey) -> int:
    key = value if isinstance(value, AdvisoryKey) else AdvisoryKey.from_value(value)
    return key.classid << 32 | key.objid


def lock_rows(
    pid: int | None,
    *values: Value,
    mode: str = EXCLUSIVE,
    granted: bool = True,
    database: int = 5,
    transaction: str | None = None,
    waitstart: float | None = None,
) -> LockRows:
    """Locks of one process on keys of one form: all bigints, or all pairs."""
    return LockRows(
        pid,
        transaction or f"{pid}/1",
        database,
        1 if all(isinstance(value, int) for value in values) else 2,
        mode,
        granted,
        frozenset(map(packed, values)),
        None if waitstart is None else at(waitstart),
    )


def waiting(pid: int, value: Value, *, since: float | None = 0, mode: str = EXCLUSIVE) -> LockRows:
    return lock_rows(pid, value, granted=False, waitstart=since, mode=mode)


def session(
    pid: int,
    state: str | None = "idle",
    *,
    backend_start: float | None = -1000,
    xact_start: float | None = None,
    query_start: float | None = None,
    state_change: float | None = None,
    **more: Any,  # noqa: ANN401
) -> Session:
    """A client's session."""
    told = {
        "database": "app",
        "user": "app",
        "application_name": f"worker-{pid}",
        "state": state,
        "backend_type": "client backend",
        **more,
    }
    times = (backend_start, xact_start, query_start, state_change)
    began, xact, query, change = (None if seconds is None else at(seconds) for seconds in times)
    return Session(pid, backend_start=began, xact_start=xact, query_start=query, state_change=change, **told)


def prepared(gid: str, since: float = 0) -> Prepared:
    return Prepared(gid, at(since), "app", "app")


def snapshot(
    seconds: float,
    *locks: LockRows,
    sessions: Iterable[Session] = (),
    clock: float | None = None,
    **more: Any,  # noqa: ANN401
) -> Snapshot:
    """A poll at that time of the server's clock; ``clock`` is the reader's own, the same unless given."""
    asked_at = seconds if clock is None else clock
    return Snapshot(
        at(seconds),
        asked_at,
        asked_at + 0.001,
        **{"server": SERVER, "databases": DATABASES, **more},
        locks=locks,
        sessions={each.pid: each for each in sessions},
    )


def watched(*snapshots: Snapshot, jobs: Iterable[Job] = ()) -> History:
    """The history of these polls."""
    book, history = NameBook(ConfiguredNames(jobs)), History()
    for each in snapshots:
        history = fold(history, each, book)
    return history


def scene(*snapshots: Snapshot, jobs: Iterable[Job] = (), limits: Limits | None = None, **more: Any) -> Scene:  # noqa: ANN401
    """What rules see after these polls."""
    jobs = tuple(jobs)
    return Scene(watched(*snapshots, jobs=jobs), limits or Limits(), jobs, **more)


def names(history: History) -> Mapping[int, str | None]:
    """The name of each key, packed."""
    return {
        key: subject.name.text if subject.name else None
        for group in history.groups
        for subject in group.subjects
        for key in subject.keys
    }

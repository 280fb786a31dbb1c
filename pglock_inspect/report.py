"""The report of a scene: everything a presenter shows, with each lock made only when it is asked for."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.model import SEVERITIES, Alike, Blocked, JobState, Lock, Report, Totals
from pglock_inspect.runs import run_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet

    from pglock_inspect.findings import Scene
    from pglock_inspect.model import Finding, HoldGroup, Job, Subject

    _Part = tuple[HoldGroup, Subject]
    """The keys of a group that share a name."""

    _Mark = tuple[frozenset[int], Finding]
    """Keys, and what was found about them."""

    _JobIdentity = tuple[str, str | None]
    """Its name, and the database that it names: there may be one of that name in each."""


def make_report(target: str, scene: Scene, findings: tuple[Finding, ...]) -> Report:
    """Return the report of a scene and of what the rules found in it."""
    snapshot = scene.snapshot
    return Report(
        target=target,
        taken_at=snapshot.taken_at,
        server=snapshot.server,
        read_at=snapshot.taken_at,
        poll_seconds=snapshot.poll_seconds,
        lock_table_rows=snapshot.lock_table_rows,
        findings=findings,
        jobs=tuple(_job_states(scene, findings)),
        totals=_totals(scene),
        chain=_chain(scene),
        databases=snapshot.databases,
        list_locks=partial(_list_locks, scene, findings),
        list_alike=partial(_list_alike, scene, findings),
    )


def _chain(scene: Scene) -> Mapping[int, Blocked]:
    blocking = scene.snapshot.blocking
    chain = {}
    for pid in sorted({*blocking, *(pid for pids in blocking.values() for pid in pids if pid)}):
        wait = scene.wait_of(pid)
        chain[pid] = Blocked(
            pid=pid,
            session=scene.snapshot.sessions.get(pid),
            waits_for=words.wait(wait) if wait else None,
            waited_seconds=wait.seconds if wait else None,
            blocked_by=blocking.get(pid, ()),
        )
    return chain


def _totals(scene: Scene) -> Mapping[str, Totals]:
    held, waiting, unnamed = Counter[int](), Counter[int](), Counter[int]()
    for group in scene.groups:
        database = group.rows.database
        (held if group.rows.granted else waiting)[database] += len(group.keys)
        for subject in group.subjects:
            if subject.name is None:
                unnamed[database] += len(subject.keys)
    totals = {
        scene.name_of_database(oid): Totals(held[oid], waiting[oid], unnamed[oid])
        for oid in {**held, **waiting}
    }
    return dict(sorted(totals.items()))


def _job_states(scene: Scene, findings: Sequence[Finding]) -> Iterator[JobState]:
    seen: dict[_JobIdentity, dict[str, list[_Part]]] = {}
    for group in scene.groups:
        for subject in group.subjects:
            if subject.name and subject.name.job:
                in_databases = seen.setdefault(_identity(subject.name.job), {})
                in_databases.setdefault(scene.database_name(group), []).append((group, subject))
    stale = {
        (id(group), keys) for finding in findings if finding.rule == "stale" for group, keys in finding.about
    }
    for job in scene.jobs:
        runs = scene.runs.get(run_key(job))
        last_held = runs.last_held if runs else None
        found = seen.get(_identity(job), {})
        if not found:
            yield JobState(job, job.database, last_held=last_held)
        for database, parts in sorted(found.items()):
            holds = [(group, subject) for group, subject in parts if group.rows.granted]
            waits = [(group, subject) for group, subject in parts if not group.rows.granted]
            yield JobState(
                job=job,
                database=database,
                held=_number(holds),
                waiters=_number(waits),
                stale=_number([(g, s) for g, s in holds if (id(g), s.keys) in stale]),
                held_seconds=_longest(scene.held(group, subject).seconds for group, subject in holds),
                wait_seconds=_longest(scene.waited(group) for group, _ in waits),
                last_held=last_held,
            )


def _identity(job: Job) -> _JobIdentity:
    return job.name, job.database


def _number(parts: Iterable[_Part]) -> int:
    return sum(len(subject.keys) for _, subject in parts)


def _longest(ages: Iterable[float | None]) -> float | None:
    return max((age for age in ages if age is not None), default=None)


def _list_locks(scene: Scene, findings: Sequence[Finding], most_alike: int | None) -> tuple[Lock, ...]:
    return tuple(
        alike.at(packed)
        for alike in _list_alike(scene, findings)
        for packed in islice(alike.keys, most_alike)
    )


def _list_alike(scene: Scene, findings: Sequence[Finding]) -> tuple[Alike, ...]:
    marks: dict[int, list[_Mark]] = {}
    for finding in findings:
        for group, keys in finding.about:
            marks.setdefault(id(group), []).append((keys, finding))
    awaited: dict[tuple[int, int], set[int]] = {}
    for database, objsubid, packed in scene.waiters:
        awaited.setdefault((database, objsubid), set()).add(packed)
    return tuple(
        alike
        for group in scene.groups
        for alike in _alike_in(
            scene,
            group,
            marks.get(id(group), []),
            awaited.get((group.rows.database, group.rows.objsubid), set()) if group.rows.granted else set(),
        )
    )


def _alike_in(
    scene: Scene, group: HoldGroup, marks: Sequence[_Mark], awaited: AbstractSet[int]
) -> Iterator[Alike]:
    rows, database = group.rows, scene.database_name(group)
    waiting = not rows.granted
    blockers = tuple(dict.fromkeys(_process(holder) for holder in scene.blockers(group))) if waiting else ()
    asked = scene.snapshot.blocking.get(rows.pid) if waiting and rows.pid is not None else None
    ahead = None if asked is None else tuple(pid for pid in asked if pid not in blockers)
    for subject in group.subjects:
        name = subject.name
        held = scene.held(group, subject) if rows.granted else None
        max_held = None if name and name.long_lived else scene.limits_of(name).max_held
        for keys, found in _apart(subject.keys, marks, awaited):
            packed = next(iter(keys))
            lock = Lock(
                key=rows.key(packed),
                database=database,
                name=name,
                mode=rows.mode,
                granted=rows.granted,
                scope="transaction" if group.prepared else name.scope if name else None,
                pid=rows.pid,
                session=group.session,
                prepared=group.prepared,
                held=held,
                waited_seconds=scene.waited(group) if waiting else None,
                max_held=max_held,
                blocked_by=blockers,
                queued_behind=ahead,
                waiters=len(scene.waiters[rows.database, rows.objsubid, packed]) if packed in awaited else 0,
                findings=tuple(dict.fromkeys(finding.rule for finding in found)),
                severity=max((f.severity for f in found), key=SEVERITIES.index, default=None),
            )
            yield Alike(lock, keys)


def _apart(
    keys: frozenset[int], marks: Sequence[_Mark], awaited: AbstractSet[int]
) -> Iterator[tuple[frozenset[int], list[Finding]]]:
    """Yield keys that the same findings are about, with these; each one that is waited for apart."""
    of_all = [mark for mark in marks if keys is mark[0] or keys <= mark[0]]
    special = keys & awaited
    for marked, _ in marks:
        if len(of_all) < len(marks) and not keys <= marked:
            special |= keys & marked
    by_findings: dict[object, tuple[list[int], list[Finding]]] = {}
    for packed in special:
        found = [finding for marked, finding in marks if packed in marked]
        which = packed if packed in awaited else tuple(map(id, found))
        by_findings.setdefault(which, ([], found))[0].append(packed)
    rest = keys - special if special else keys  # the very object, by which it is known again
    if rest:
        yield rest, [finding for _, finding in of_all]
    for its_keys, found in by_findings.values():
        yield frozenset(its_keys), found


def _process(group: HoldGroup) -> int | str:
    if group.rows.pid is not None:
        return group.rows.pid
    return group.prepared.gid if group.prepared else group.rows.virtual_transaction

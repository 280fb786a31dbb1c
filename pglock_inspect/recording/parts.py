"""A report as parts in JSON that stay the same as long as nothing happens.

Ages are written as the instants that they count from, and locks that differ in their key alone as one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct, to_builtins
from msgspec.json import decode, encode
from msgspec.structs import astuple, replace

from pglock_inspect.errors import FailureReason
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import (
    Blocked,
    Counters,
    Database,
    Evidence,
    Finding,
    Held,
    HoldGroup,
    Instant,
    JobState,
    Lock,
    LockRows,
    Prepared,
    Report,
    Server,
    Session,
    Sighting,
    Totals,
    seconds_between,
)
from pglock_inspect.present.text import well_formed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Since = int | float | None
"""What an age counts from, an instant; or, where no instant gives it exactly, the age itself, a float."""


class Parts(NamedTuple):
    """A report in JSON: the fields by name, and for each kind of row its rows."""

    fields: Mapping[str, bytes]
    rows: Mapping[str, Sequence[bytes]]


class _Bounds(Struct, frozen=True):
    """A `Held`, by instants."""

    seconds: Since
    at_least: Since
    at_most: Since
    evidence: Evidence


class _Locks(Struct, frozen=True, omit_defaults=True):
    """Locks that differ in nothing but ``keys``; ``lock`` is the first of them, without its age."""

    lock: Lock
    keys: tuple[AdvisoryKey, ...]
    held: _Bounds | None = None
    waiting: Since = None


class _Group(Struct, frozen=True, omit_defaults=True):
    """Of a `HoldGroup` what tells which locks it is about; ``rows`` has the keys that were found."""

    rows: LockRows
    prepared: Prepared | None = None


class _Finding(Struct, frozen=True, omit_defaults=True):
    """A finding, and the groups that it is about, by their numbers."""

    finding: Finding
    groups: tuple[int, ...] = ()


class _JobState(Struct, frozen=True, omit_defaults=True):
    """A job's state without ages; ``last_held`` is ``now`` as long as somebody holds it."""

    state: JobState
    held: Since = None
    waiting: Since = None
    last_held: Instant | Literal["now"] | None = None


class _Blocked(Struct, frozen=True, omit_defaults=True):
    """A blocked process without its age."""

    blocked: Blocked
    waiting: Since = None


class _Report(Struct, frozen=True):
    """A report as it is written, but for its locks, which are read when somebody asks for them."""

    target: str
    taken_at: Instant
    server: Server | None
    error: str | None
    failure: FailureReason | None
    failing_since: Instant | None
    read_at: Instant | None
    poll_seconds: float | None
    counters: Counters
    lock_table_rows: int
    totals: Mapping[str, Totals]
    databases: Mapping[int, Database]
    chain: tuple[_Blocked, ...]
    findings: tuple[_Finding, ...]
    jobs: tuple[_JobState, ...]
    groups: tuple[_Group, ...]


_AS_THEY_ARE = _Report.__struct_fields__[:12]
ROWS = ("locks", "findings", "jobs", "groups")


# --- Writing ------------------------------------------------------------------------------------------


def parts_of(report: Report, *, queries: bool) -> Parts:
    """Return a report in parts; without ``queries``, not their text."""
    groups: dict[tuple[int, frozenset[int]], tuple[int, _Group]] = {}
    findings = [_finding(finding, groups) for finding in report.findings]
    fields: dict[str, Any] = {name: getattr(report, name) for name in _AS_THEY_ARE}
    fields["chain"] = [
        _blocked(blocked, report.taken_at, queries=queries) for blocked in report.chain.values()
    ]
    rows: dict[str, Iterable[Struct]] = {
        "locks": _locks(report, queries=queries),
        "findings": findings,
        "jobs": (_job_state(state, report.taken_at) for state in report.jobs),
        "groups": (group for _, group in groups.values()),
    }
    return Parts(
        {name: _json(value) for name, value in fields.items()},
        {name: [_json(row) for row in rows[name]] for name in ROWS},
    )


def _json(value: object) -> bytes:
    try:
        return encode(value)
    except UnicodeEncodeError:  # bytes that were no text in the server's encoding
        return encode(_encodable(to_builtins(value)))


def _encodable(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return [*map(_encodable, value)] if isinstance(value, (list, tuple)) else value


def _locks(report: Report, *, queries: bool) -> Iterator[_Locks]:
    assert Lock.__struct_fields__[0] == "key"
    for _, run in groupby(report.locks, key=lambda lock: astuple(lock)[1:]):
        alike = [*run]
        first = alike[0]
        held = first.held
        yield _Locks(
            lock=replace(
                first, held=None, waited_seconds=None, session=_session(first.session, queries=queries)
            ),
            keys=tuple(lock.key for lock in alike),
            held=None if held is None else _bounds(held, report.taken_at),
            waiting=_since(first.waited_seconds, report.taken_at),
        )


def _bounds(held: Held, now: Instant) -> _Bounds:
    return _Bounds(
        _since(held.seconds, now), _since(held.at_least, now), _since(held.at_most, now), held.evidence
    )


def _session(session: Session | None, *, queries: bool) -> Session | None:
    if session is None:
        return None
    # Other sessions' work alone makes xmin_age grow; what follows from it was found already.
    return replace(session, xmin_age=None, query=session.query if queries else None)


def _finding(finding: Finding, groups: dict[tuple[int, frozenset[int]], tuple[int, _Group]]) -> _Finding:
    numbers = []
    for group, keys in finding.about:
        new = _Group(replace(group.rows, keys=keys), group.prepared)
        number, _ = groups.setdefault((id(group), keys), (len(groups), new))
        numbers.append(number)
    return _Finding(replace(finding, about=()), tuple(numbers))


def _job_state(state: JobState, now: Instant) -> _JobState:
    return _JobState(
        replace(state, held_seconds=None, wait_seconds=None, last_held=None),
        _since(state.held_seconds, now),
        _since(state.wait_seconds, now),
        "now" if state.last_held == now else state.last_held,
    )


def _blocked(blocked: Blocked, now: Instant, *, queries: bool) -> _Blocked:
    session = _session(blocked.session, queries=queries)
    return _Blocked(
        replace(blocked, waited_seconds=None, session=session), _since(blocked.waited_seconds, now)
    )


def _since(age: float | None, now: Instant) -> Since:
    if age is None:
        return None
    since = Instant(now - round(age * 1_000_000))
    return since if seconds_between(since, now) == age else float(age)


# --- Reading ------------------------------------------------------------------------------------------


def report_of(parts: Parts) -> Report:
    """Return the report of parts. Raises ValueError where they make none."""
    members = [*parts.fields.items()]
    members += [(name, b"[%b]" % b",".join(parts.rows[name])) for name in ROWS if name != "locks"]
    whole = b"{%b}" % b",".join(b"%b:%b" % (encode(name), value) for name, value in members)
    read = decode(whole, type=_Report)
    now = read.taken_at
    groups = [*map(_hold_group, read.groups)]
    return Report(
        **{name: getattr(read, name) for name in _AS_THEY_ARE},
        findings=tuple(
            replace(
                item.finding, about=tuple((groups[number], groups[number].keys) for number in item.groups)
            )
            for item in read.findings
        ),
        jobs=tuple(
            replace(
                item.state,
                held_seconds=_age(item.held, now),
                wait_seconds=_age(item.waiting, now),
                last_held=now if item.last_held == "now" else item.last_held,
            )
            for item in read.jobs
        ),
        chain={
            item.blocked.pid: replace(item.blocked, waited_seconds=_age(item.waiting, now))
            for item in read.chain
        },
        list_locks=partial(_list_locks, parts.rows["locks"], now),
    )


def _hold_group(group: _Group) -> HoldGroup:
    nowhen = Sighting(Instant(0), 0)  # a finding has told what follows from it
    return HoldGroup(group.rows, group.rows.keys, (), nowhen, prepared=group.prepared)


def _list_locks(rows: Iterable[bytes], now: Instant, most_alike: int | None) -> tuple[Lock, ...]:
    return tuple(lock for row in rows for lock in _locks_of(decode(row, type=_Locks), now, most_alike))


def _locks_of(alike: _Locks, now: Instant, most: int | None) -> Iterator[Lock]:
    held = alike.held
    lock = replace(
        alike.lock,
        held=None if held is None else _held(held, now),
        waited_seconds=_age(alike.waiting, now),
    )
    for key in alike.keys if lock.waiters else alike.keys[:most]:
        yield replace(lock, key=key)


def _age(since: Since, now: Instant) -> float | None:
    return seconds_between(Instant(since), now) if isinstance(since, int) else since


def _held(age: _Bounds, now: Instant) -> Held:
    return Held(_age(age.seconds, now), _age(age.at_least, now), _age(age.at_most, now), age.evidence)

"""The frozen values that flow through the program: what is configured, what was read, what is reported.

Instants are microseconds since 2000-01-01 UTC on the server's clock, as PostgreSQL keeps a ``timestamptz``
(src/include/datatype/timestamp.h), so that ages are differences of integers; durations are seconds. A value
that is not known is None, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Literal, NewType

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.errors import FailureReason
from pglock_inspect.keys import AdvisoryKey

Instant = NewType("Instant", int)
Severity = Literal["info", "warning", "critical"]
Scope = Literal["session", "transaction"]
Evidence = Literal["stamp", "prepared", "session_state", "transaction", "statement", "observed", "none"]
NameSource = Literal["config", "query", "application_name", "names_query", "known"]

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")

_WAITSTART_SINCE = 14_00_00
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def to_datetime(instant: Instant) -> datetime:
    """Return an instant as an aware UTC datetime; PostgreSQL's may be later, or infinite."""
    try:
        return _EPOCH + timedelta(microseconds=instant)
    except OverflowError:
        return _LAST if instant > 0 else _FIRST


def to_instant(moment: datetime) -> Instant:
    """Return an aware datetime as an instant."""
    return Instant((moment - _EPOCH) // timedelta(microseconds=1))


def seconds_between(earlier: Instant, later: Instant) -> float:
    """Return the seconds from one instant to a later one."""
    return (later - earlier) / 1_000_000


# --- What is configured -------------------------------------------------------------------------------


class Limits(Struct, frozen=True):
    """How long a lock may be held and waited for before it is worth telling, in seconds."""

    max_held: float = 3600.0
    max_wait: float = 60.0


class Job(Struct, frozen=True):
    """A name for a key, and the limits that a person set for it. Durations are seconds.

    One of four ways leads to its keys: ``key`` (that key), ``first`` (every pair of int4 that starts with
    it), ``match`` (a pattern such as ``tenant:*`` for names learned from the server), else the name itself,
    hashed by ``scheme``.
    """

    name: str
    key: AdvisoryKey | None = None
    first: int | None = None
    match: str | None = None
    scheme: str = "hashtext"
    database: str | None = None
    limits: Limits = Limits()
    every: float | None = None
    scope: Scope | None = None
    heartbeat: float | None = None
    min_held: float | None = None
    long_lived: bool = False


class RuleSettings(Struct, frozen=True):
    """What ``[rules.NAME]`` changes: a severity for all findings of a rule, or ``off``, and its threshold."""

    severity: Severity | Literal["off"] | None = None
    threshold: float | None = None


# --- What was read ------------------------------------------------------------------------------------


class Database(Struct, frozen=True):
    """A row of ``pg_database``; ``encoding`` is PostgreSQL's name of it, ``UTF8`` for one."""

    oid: int
    name: str
    encoding: str = "UTF8"


class Server(Struct, frozen=True):
    """What a connection knows of the server that it reached."""

    version: str
    version_num: int
    database: str
    role: str = ""
    in_recovery: bool = False
    privileged: bool = True
    pooler: Literal[True] | None = None
    started_at: Instant | None = None
    max_connections: int = 100
    lock_slots_guaranteed: int = 6400

    @property
    def shows_waitstart(self) -> bool:
        """PostgreSQL 14 added ``pg_locks.waitstart`` (its release notes, "System Views")."""
        return self.version_num >= _WAITSTART_SINCE


class Session(Struct, frozen=True):
    """A row of ``pg_stat_get_activity()``: one server process. Its text is as raw as its client sent it."""

    pid: int
    database: str | None = None
    user: str | None = None
    application_name: str | None = None
    client: str | None = None
    state: str | None = None
    backend_start: Instant | None = None
    xact_start: Instant | None = None
    query_start: Instant | None = None
    state_change: Instant | None = None
    wait_event: str | None = None
    backend_type: str | None = None
    xmin_age: int | None = None
    query: str | None = None

    @property
    def idle(self) -> bool:
        """A client's session that runs nothing, whether inside a transaction or not."""
        return (
            self.backend_type == "client backend" and self.state is not None and self.state.startswith("idle")
        )


class Prepared(Struct, frozen=True):
    """A prepared transaction, as ``pg_prepared_xact()`` shows it."""

    gid: str
    prepared_at: Instant
    owner: str | None = None
    database: str | None = None


class LockRows(Struct, frozen=True, eq=False):
    """Advisory rows of ``pg_locks`` that differ in nothing but their key.

    ``pid`` is None for a prepared transaction, which ``virtual_transaction`` then identifies. ``keys`` are
    the two unsigned halves packed as ``classid << 32 | objid``. A reader hands out the same ``keys`` object
    as long as the server shows the same keys, so that what did not change is recognised without a look.
    """

    pid: int | None
    virtual_transaction: str
    database: int
    objsubid: int
    mode: str
    granted: bool
    keys: frozenset[int]
    waitstart: Instant | None = None

    @property
    def backend_number(self) -> str:
        """The first half of the virtual transaction: the slot of the backend, stable while it lives."""
        return self.virtual_transaction.partition("/")[0]

    def key(self, packed: int) -> AdvisoryKey:
        """Return one of ``keys`` unpacked."""
        return AdvisoryKey.unpack(packed, self.objsubid)


class OtherWait(Struct, frozen=True):
    """A process that waits for a lock which is not an advisory one."""

    pid: int
    locktype: str
    mode: str
    waitstart: Instant | None = None


class Snapshot(Struct, frozen=True):
    """One read of the server.

    ``taken_at`` is the server's clock before the lock table was read; the reader's monotonic clock (seconds)
    showed between ``asked_at`` and ``answered_at`` then. Sessions were read after the locks: a lock may have
    no session.
    ``sessions`` is keyed by pid, ``prepared`` by virtual transaction, ``databases`` by oid. ``blocking`` maps
    those waiters that the server was asked about to what ``pg_blocking_pids()`` said.
    """

    taken_at: Instant
    asked_at: float
    answered_at: float
    server: Server
    locks: tuple[LockRows, ...] = ()
    sessions: Mapping[int, Session] = {}
    prepared: Mapping[str, Prepared] = {}
    databases: Mapping[int, Database] = {}
    other_waits: tuple[OtherWait, ...] = ()
    blocking: Mapping[int, tuple[int, ...]] = {}
    lock_table_rows: int = 0
    poll_seconds: float = 0.0


# --- What is concluded --------------------------------------------------------------------------------


class Name(Struct, frozen=True):
    """What a key is called, where that is known from, and the job whose limits apply.

    ``product`` is set for known software; ``maybe`` marks a name that the key alone does not prove.
    """

    text: str
    source: NameSource
    scheme: str | None = None
    product: str | None = None
    job: Job | None = None
    scope: Scope | None = None
    long_lived: bool = False
    maybe: bool = False


class Held(Struct, frozen=True, gc=False):
    """How long a lock has been held, in seconds as of the moment before the locks were read.

    ``at_least`` and ``at_most`` are proven, None where nothing is; ``seconds`` is the best estimate, by
    which limits are judged, and ``evidence`` its source.
    """

    seconds: float | None
    at_least: float | None
    at_most: float | None
    evidence: Evidence


class Sighting(Struct, frozen=True):
    """Since when polling has seen something without a gap.

    ``absent_at`` is the last poll without it, None where no poll proves that it was not there before.
    """

    first_seen: Instant
    first_poll: int
    absent_at: Instant | None = None


class Subject(Struct, frozen=True, eq=False):
    """Keys (packed) that share a name, or that have none."""

    name: Name | None
    keys: frozenset[int]


class HoldGroup(Struct, frozen=True, eq=False):
    """Locks of one process in one mode that were first seen together: held, or waited for.

    They share all that can be known of their age, so that 100,000 locks of a session cost what one does.
    ``subjects`` divides ``keys`` by name. ``backend_start`` and ``xact_start`` are the last ones seen,
    ``applications`` the first few names that the session went by while it held them outside of transactions.
    ``stamp`` is when the holder says that it took the lock; a group that ``is_stamp`` says so of another.
    """

    rows: LockRows
    keys: frozenset[int]
    subjects: tuple[Subject, ...]
    sighting: Sighting
    session: Session | None = None
    prepared: Prepared | None = None
    backend_start: Instant | None = None
    xact_start: Instant | None = None
    applications: tuple[str, ...] = ()
    stamp: Instant | None = None
    is_stamp: bool = False


class Finding(Struct, frozen=True):
    """One thing worth telling. ``key`` and ``pid`` are None where it concerns several or none.

    ``evidence`` states numbers, ``suggestion`` the exact next step. ``about`` are the locks it is about.
    """

    rule: str
    severity: Severity
    summary: str
    evidence: str
    suggestion: str
    job: str | None = None
    pid: int | None = None
    database: str | None = None
    key: AdvisoryKey | None = None
    about: tuple[tuple[HoldGroup, frozenset[int]], ...] = ()


class Lock(Struct, frozen=True):
    """One advisory lock, held or waited for, as every presenter shows it.

    ``blocked_by`` and ``queued_behind`` are pids, or the gid of a prepared transaction. ``queued_behind``
    is None where the server was not asked.
    """

    key: AdvisoryKey
    database: str | None
    name: Name | None
    mode: str
    granted: bool
    scope: Scope | None
    pid: int | None
    session: Session | None
    prepared: Prepared | None
    held: Held | None
    waited_seconds: float | None
    max_held: float | None
    blocked_by: tuple[int | str, ...] = ()
    queued_behind: tuple[int | str, ...] | None = None
    waiters: int = 0
    findings: tuple[str, ...] = ()
    severity: Severity | None = None


class Alike(Struct, frozen=True, eq=False):
    """Locks that differ in nothing but their key: one of them, and the ``keys`` (packed) of all."""

    lock: Lock
    keys: frozenset[int]

    def at(self, packed: int) -> Lock:
        """Return the lock on one of ``keys``."""
        return replace(self.lock, key=AdvisoryKey.unpack(packed, self.lock.key.objsubid))


class Blocked(Struct, frozen=True):
    """A process on the way from a waiter to the root of what it waits for.

    ``waits_for`` is what in words, and ``waited_seconds`` since when; both None for a root, which waits for
    nobody. ``blocked_by`` are pids, 0 for a prepared transaction.
    """

    pid: int
    session: Session | None = None
    waits_for: str | None = None
    waited_seconds: float | None = None
    blocked_by: tuple[int, ...] = ()


class JobState(Struct, frozen=True):
    """A configured job in one database; None where it names none and is not held."""

    job: Job
    database: str | None
    held: int = 0
    waiters: int = 0
    stale: int = 0
    held_seconds: float | None = None
    wait_seconds: float | None = None
    last_held: Instant | None = None


HOLD_BOUNDS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""Seconds that a `Tally` divides the holds by."""


class Tally(Struct, frozen=True):
    """What polling has seen of a job's holds in one database, since it began to count.

    ``begun`` is how many there were. ``lasted`` is how many of them ended, each counted at the first of
    `HOLD_BOUNDS` that it did not outlast, or at the very end; ``seconds`` is how long they lasted together.
    """

    begun: int = 0
    lasted: tuple[int, ...] = (0,) * (len(HOLD_BOUNDS) + 1)
    seconds: float = 0.0


class Counters(Struct, frozen=True):
    """What a watcher has counted since it, or the one that it goes on from, began.

    ``failures`` are numbers of polls by `FailureReason`; ``holds`` go by job and then by database.
    """

    failures: Mapping[str, int] = {}
    holds: Mapping[str, Mapping[str, Tally]] = {}


class Totals(Struct, frozen=True):
    """Numbers of advisory locks in one database."""

    held: int = 0
    waiting: int = 0
    unnamed: int = 0


class Report(Struct, frozen=True, dict=True):
    """One poll, named, timed and judged: the only thing that a presenter receives.

    ``taken_at`` is the server's clock, or the watcher's where the server could not be read; then ``server``
    is None, ``error`` says why in a sentence, ``failure`` in a word, and ``failing_since`` is the first poll
    of those in a row that failed. ``read_at`` and ``poll_seconds`` are of the last poll that worked, which
    may be an earlier one. ``totals`` is keyed by database name, ``chain`` by pid: those that the server was
    asked about, down to the roots; ``databases`` by oid. ``list_locks`` makes every lock, or of those that
    differ in their key alone no more than so many, besides the ones that are waited for; ``list_alike`` says
    which ones these are, where that is known before there are locks.
    """

    target: str
    taken_at: Instant
    server: Server | None = None
    error: str | None = None
    failure: FailureReason | None = None
    failing_since: Instant | None = None
    read_at: Instant | None = None
    poll_seconds: float | None = None
    counters: Counters = Counters()
    lock_table_rows: int = 0
    findings: tuple[Finding, ...] = ()
    jobs: tuple[JobState, ...] = ()
    totals: Mapping[str, Totals] = {}
    chain: Mapping[int, Blocked] = {}
    databases: Mapping[int, Database] = {}
    list_locks: Callable[[int | None], tuple[Lock, ...]] = lambda _: ()
    list_alike: Callable[[], tuple[Alike, ...]] | None = None

    @cached_property
    def locks(self) -> tuple[Lock, ...]:
        """Every advisory lock, made when first asked for: most polls are judged and never shown."""
        return self.list_locks(None)

    @cached_property
    def alike(self) -> tuple[Alike, ...]:
        """Every advisory lock, those that differ in their key alone as one."""
        if self.list_alike:
            return self.list_alike()
        alike: dict[Lock, list[Lock]] = {}
        for lock in self.locks:
            alike.setdefault(replace(lock, key=AdvisoryKey.unpack(0, lock.key.objsubid)), []).append(lock)
        return tuple(Alike(same[0], frozenset(lock.key.packed for lock in same)) for same in alike.values())

    def locks_on(self, database: str | None, key: AdvisoryKey) -> list[Lock]:
        """Return all locks on a key, held or waited for."""
        return [
            alike.at(key.packed)
            for alike in self.alike
            if alike.lock.database == database
            and alike.lock.key.objsubid == key.objsubid
            and key.packed in alike.keys
        ]

    @property
    def severity(self) -> Severity | None:
        """The worst severity of all findings."""
        return max((finding.severity for finding in self.findings), key=SEVERITIES.index, default=None)

"""Reports made by hand, for tests of what shows them. Vary the values with `msgspec.structs.replace`."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import (
    Finding,
    Held,
    Instant,
    Lock,
    Name,
    Prepared,
    Report,
    Server,
    Session,
    Totals,
    to_instant,
)

NOW = to_instant(datetime(2026, 11, 30, 2, 0, 0, 123456, UTC))


def ago(seconds: float) -> Instant:
    return Instant(NOW - round(seconds * 1_000_000))


SERVER = Server(version="18.6", version_num=18_00_06, database="app", lock_slots_guaranteed=7040)

SESSION = Session(
    pid=4711,
    database="app",
    user="app",
    application_name="worker-3",
    client="10.0.0.7:51234",
    state="idle",
    backend_start=ago(10_920),
    query_start=ago(2_521),
    state_change=ago(2_520),
    wait_event="Client/ClientRead",
    backend_type="client backend",
    query="COMMIT",
)

# 42 minutes, as far as is proven, by an idle session.
HOLDER = Lock(
    key=AdvisoryKey(4294967295, 2337752054, 1),
    database="app",
    name=Name("send_daily_digest", "config", scheme="hashtext"),
    mode="ExclusiveLock",
    granted=True,
    scope=None,
    pid=SESSION.pid,
    session=SESSION,
    prepared=None,
    held=Held(2_520.0, 2_520.0, 10_920.0, "session_state"),
    waited_seconds=None,
    max_held=600.0,
    waiters=1,
    findings=("stale",),
    severity="critical",
)

# For the same, since 12 minutes.
WAITER = Lock(
    key=HOLDER.key,
    database="app",
    name=HOLDER.name,
    mode="ExclusiveLock",
    granted=False,
    scope=None,
    pid=4720,
    session=Session(
        pid=4720,
        user="app",
        application_name="worker-1",
        client="10.0.0.5:51004",
        state="active",
        query_start=ago(720),
        query="SELECT pg_advisory_lock(hashtext('send_daily_digest'))",
    ),
    prepared=None,
    held=None,
    waited_seconds=720.0,
    max_held=600.0,
    blocked_by=(4711,),
)

# For 5 minutes, by a prepared transaction; nobody named the key.
PREPARED = Lock(
    key=AdvisoryKey.from_pair(7, -42),
    database="app",
    name=None,
    mode="ShareLock",
    granted=True,
    scope="transaction",
    pid=None,
    session=None,
    prepared=Prepared("transfer-17", ago(300), "billing", "app"),
    held=Held(300.0, 300.0, None, "prepared"),
    waited_seconds=None,
    max_held=3600.0,
)

STALE = Finding(
    rule="stale",
    severity="critical",
    summary="send_daily_digest is stale: pid 4711 (app, worker-3) has held it for 42 min, allowed are 10 min",
    evidence="held 42 min, at least 42 min, at most 3 h 2 min (evidence: session_state)",
    suggestion="pglock-inspect kill 4711 --terminate",
    job="send_daily_digest",
    pid=4711,
    database="app",
    key=HOLDER.key,
)

UNREACHABLE = Report(
    target="db.example.org:5432",
    taken_at=NOW,
    error="cannot connect to db.example.org:5432: connection refused; check that the server runs there",
    failure="connect",
)


def make_report(*locks: Lock, findings: tuple[Finding, ...] = ()) -> Report:
    held = sum(lock.granted for lock in locks)
    return Report(
        target="localhost:5432",
        taken_at=NOW,
        server=SERVER,
        read_at=NOW,
        poll_seconds=0.0021,
        lock_table_rows=31,
        findings=findings,
        totals={"app": Totals(held, len(locks) - held)},
        list_locks=lambda _: locks,
    )


def numbered(count: int) -> Report:
    """Locks of jobs job-000, job-001, … held by pids 1000, 1001, …"""
    return make_report(*(lock_of(number) for number in range(count)))


def lock_of(number: int) -> Lock:
    return replace(
        HOLDER,
        key=AdvisoryKey.from_bigint(number),
        name=Name(f"job-{number:03}", "config"),
        pid=1000 + number,
        session=replace(SESSION, pid=1000 + number),
        severity=None,
        findings=(),
    )

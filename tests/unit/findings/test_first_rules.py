"""The first rules, each where it must fire and where it comes close and must not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pglock_inspect.findings import judge
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, Limits
from tests.support.polls import SERVER, lock_rows, packed, prepared, scene, session, snapshot, waiting

if TYPE_CHECKING:
    from pglock_inspect.findings import Scene
    from pglock_inspect.model import Finding, HoldGroup

NIGHTLY = Job("nightly", key=AdvisoryKey.from_bigint(7), limits=Limits(max_held=60, max_wait=10))
LEADER = replace(NIGHTLY, long_lived=True)
TAKE = "SELECT pg_advisory_lock(7)"


def found(one: Scene, rule: str) -> list[Finding]:
    return [finding for finding in judge(one) if finding.rule == rule]


def idle_for(seconds: float, **more: Any) -> Scene:  # noqa: ANN401
    """A session that has been idle under its lock for so long."""
    worker = session(1, state_change=1000 - seconds, query=TAKE)
    return scene(snapshot(1000, lock_rows(1, 7), sessions=[worker]), **more)


def keys_about(finding: Finding) -> list[tuple[int | None, frozenset[int]]]:
    def of(group: HoldGroup, keys: frozenset[int]) -> tuple[int | None, frozenset[int]]:
        return group.rows.pid, keys

    return [of(group, keys) for group, keys in finding.about]


@pytest.mark.parametrize(("seconds", "number"), [(60, 1), (59.9, 0)])
def test_stale_begins_at_the_limit(seconds: float, number: int) -> None:
    findings = found(idle_for(seconds, jobs=[NIGHTLY]), "stale")
    assert [finding.severity for finding in findings] == ["critical"] * number


def test_a_job_for_life_is_neither_stale_nor_could_it_be() -> None:
    one = idle_for(900, jobs=[LEADER])
    assert not found(one, "stale")
    assert not found(one, "could-be-stale")


def test_a_key_that_nobody_configured_is_stale_by_the_limit_for_all() -> None:
    (finding,) = found(idle_for(900, limits=Limits(max_held=600)), "stale")
    assert (finding.severity, finding.job, finding.key) == ("warning", None, AdvisoryKey.from_bigint(7))
    assert not found(idle_for(500, limits=Limits(max_held=600)), "stale")


@pytest.mark.parametrize(("backend_start", "number"), [(940, 1), (941, 0)])
def test_could_be_stale_where_only_the_upper_bound_reaches_the_limit(
    backend_start: float, number: int
) -> None:
    worker = session(1, "active", backend_start=backend_start, query=TAKE)
    one = scene(snapshot(1000, lock_rows(1, 7), sessions=[worker]), jobs=[NIGHTLY])
    assert [finding.severity for finding in found(one, "could-be-stale")] == ["info"] * number
    assert not found(one, "stale")


@pytest.mark.parametrize(("seconds", "severity"), [(59, None), (60, "warning"), (3600, "critical")])
def test_prepared_counts_from_a_minute_and_is_critical_past_the_limit(
    seconds: float, severity: str | None
) -> None:
    rows = lock_rows(None, 7, transaction="-1/9")
    one = scene(snapshot(4000, rows, prepared={"-1/9": prepared("it's left", 4000 - seconds)}))
    findings = found(one, "prepared")
    assert [finding.severity for finding in findings] == ([severity] if severity else [])
    assert all("ROLLBACK PREPARED 'it''s left'" in finding.suggestion for finding in findings)


@pytest.mark.parametrize(
    ("state", "seconds", "number"),
    [
        ("idle in transaction", 300, 1),
        ("idle in transaction (aborted)", 300, 1),
        ("idle in transaction", 299, 0),
        ("idle", 9000, 0),
        ("active", 9000, 0),
    ],
)
def test_idle_in_transaction_counts_from_five_minutes(state: str, seconds: float, number: int) -> None:
    worker = session(1, state, backend_start=-9000, xact_start=0, state_change=9500 - seconds, query=TAKE)
    one = scene(snapshot(9500, lock_rows(1, 7), sessions=[worker]))
    assert len(found(one, "idle-in-transaction")) == number


@pytest.mark.parametrize(("waited", "number"), [(10, 1), (9.9, 0)])
def test_waiting_long_begins_at_the_limit(waited: float, number: int) -> None:
    one = scene(snapshot(100, lock_rows(1, 7), waiting(2, 7, since=100 - waited)), jobs=[NIGHTLY])
    findings = found(one, "waiting-long")
    assert [(finding.severity, finding.pid, finding.job) for finding in findings] == [
        ("warning", 2, "nightly")
    ] * number
    assert all("held by pid 1" in finding.summary for finding in findings)


@pytest.mark.parametrize(("connections", "severity"), [(8, "critical"), (9, "warning")])
def test_waiters_that_take_a_quarter_of_all_connections_are_critical(connections: int, severity: str) -> None:
    server = replace(SERVER, max_connections=connections)
    waiters = (waiting(pid, 7, since=0) for pid in (2, 3))
    one = scene(snapshot(100, lock_rows(1, 7), *waiters, server=server), jobs=[NIGHTLY])
    assert {finding.severity for finding in found(one, "waiting-long")} == {severity}


def test_all_keys_of_a_database_without_a_name_are_one_finding() -> None:
    one = scene(
        snapshot(0, lock_rows(1, 7, 8, 9), lock_rows(2, 10), lock_rows(3, 11, database=6), waiting(4, 12)),
        jobs=[NIGHTLY],
    )
    here, there = found(one, "unnamed")
    assert (here.database, here.key, here.pid) == ("app", None, None)
    assert here.summary == "3 locks in database app, held by 2 holders, have no name"
    assert keys_about(here) == [(1, frozenset(map(packed, (8, 9)))), (2, frozenset({packed(10)}))]
    assert (there.database, there.key, there.pid) == ("other", AdvisoryKey.from_bigint(11), 3)
    assert "key = 11" in there.suggestion


def test_named_keys_are_not_unnamed() -> None:
    assert not found(scene(snapshot(0, lock_rows(1, 7)), jobs=[NIGHTLY]), "unnamed")


def test_what_is_hidden_is_told_once_and_counts_holders() -> None:
    server = replace(SERVER, privileged=False)
    hidden = session(1, None, backend_type=None)
    one = scene(
        snapshot(
            0,
            lock_rows(1, 7),
            lock_rows(1, (7, 8)),
            lock_rows(2, 9),
            sessions=[hidden, session(2)],
            server=server,
        )
    )
    (finding,) = found(one, "no-pg-monitor")
    assert finding.evidence == "1 of 2 holders hidden"
    assert not found(scene(snapshot(0, lock_rows(1, 7), sessions=[hidden])), "no-pg-monitor")

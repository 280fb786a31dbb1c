"""What no server shows in the time that a test has, or that all can show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from pglock_inspect.findings import judge
from pglock_inspect.model import Job, Limits, OtherWait, RuleSettings
from pglock_inspect.runs import note_runs
from pglock_inspect.waits import note_waits
from tests.support.polls import (
    SERVER,
    at,
    lock_rows,
    packed,
    prepared,
    scene,
    session,
    snapshot,
    waiting,
    watched,
)

if TYPE_CHECKING:
    from pglock_inspect.findings import Scene
    from pglock_inspect.model import Finding, Snapshot

NIGHTLY = Job("nightly", key=lock_rows(1, 7).key(7))
OLD = replace(SERVER, version="13.23", version_num=13_00_23)


def found(one: Scene, rule: str) -> list[Finding]:
    return [finding for finding in judge(one) if finding.rule == rule]


@pytest.mark.parametrize(("step", "said"), [(3630, "forward by 1 h"), (-90.5, "back by 1 min 30 s")])
def test_a_step_of_the_clock_is_told_of_for_sixty_polls(step: float, said: str) -> None:
    polls = [snapshot(0), *(snapshot(step + n, clock=n) for n in range(1, 62))]
    (finding,) = found(scene(*polls[:-1]), "clock-step")
    assert finding.severity == "info"
    assert finding.summary == f"the server's clock stepped {said}: ages from before are unknown"
    assert finding.evidence == f"{step:+.1f} s against the monotonic clock, 59 polls ago"
    assert "chronyc tracking" in finding.suggestion
    assert not found(scene(*polls), "clock-step")


@pytest.mark.parametrize("drift", [0.9, -0.9])
def test_a_drift_below_a_second_is_no_step(drift: float) -> None:
    assert not found(scene(snapshot(0), snapshot(10 + drift, clock=10)), "clock-step")


@pytest.mark.parametrize("state", ["active", "idle in transaction"])
@pytest.mark.parametrize(("transactions", "number"), [(1_000_000, 1), (999_999, 0)])
def test_a_million_transactions_held_back_count_however_long_they_took(
    state: str, transactions: int, number: int
) -> None:
    busy = session(
        1, state, query="CALL nightly()", query_start=-9000, state_change=-5, xmin_age=transactions
    )
    findings = found(scene(snapshot(0, lock_rows(1, 7), sessions=[busy])), "vacuum-held-back")
    assert len(findings) == number
    for finding in findings:
        assert finding.summary.endswith("has kept VACUUM from removing dead rows for 1,000,000 transactions")


@pytest.mark.parametrize(
    ("query", "xact_start", "number"),
    [
        ("SELECT nightly()", -9000, 1),
        ("SELECT nightly();", -9000, 1),
        ("SELECT nightly()", -100, 0),  # a procedure that commits moves it on within a statement
        ("CALL nightly()", -9000, 0),  # may take a new snapshot for each of its statements
        ("do $$ BEGIN END $$", -9000, 0),
        ("SELECT 1; SELECT nightly()", -9000, 0),
        (None, -9000, 0),
    ],
)
def test_how_long_a_statement_keeps_its_snapshot_follows_from_its_text(
    query: str | None, xact_start: float, number: int
) -> None:
    busy = session(1, "active", query=query, query_start=-9000, xact_start=xact_start, xmin_age=1)
    assert len(found(scene(snapshot(0, lock_rows(1, 7), sessions=[busy])), "vacuum-held-back")) == number


@pytest.mark.parametrize("query", ["SELECT 1; SELECT pg_advisory_lock(7)", None])
def test_a_waiter_keeps_its_snapshot_for_as_long_as_it_waits(query: str | None) -> None:
    waiter = session(2, "active", query=query, query_start=-9000, xmin_age=1)
    one = scene(snapshot(0, lock_rows(1, 7), waiting(2, 7, since=-3700), sessions=[session(1), waiter]))
    (finding,) = found(one, "vacuum-held-back")
    assert finding.summary.endswith("has kept VACUUM from removing dead rows for at least 1 h 1 min")


def test_a_wait_that_is_not_known_to_last_is_not_long() -> None:
    rows = lock_rows(1, 7), waiting(2, 7, since=None)
    assert not found(scene(snapshot(0, *rows), limits=Limits(max_wait=0)), "waiting-long")
    (finding,) = found(
        scene(snapshot(0, *rows), snapshot(5, *rows), limits=Limits(max_wait=5)), "waiting-long"
    )
    assert ": pid 2 has waited for 5 s, allowed are 5 s; held by pid 1" in finding.summary


def test_a_job_may_have_long_runs_and_no_schedule() -> None:
    job = replace(NIGHTLY, min_held=1000)
    assert not judge(_with_runs(job, snapshot(0), snapshot(90)))


def test_the_key_of_an_extension_is_not_taken_for_a_number() -> None:
    rows = replace(lock_rows(1, 7), objsubid=11)
    (finding,) = found(scene(snapshot(0, rows, sessions=[session(1)])), "unnamed")
    assert finding.summary.startswith("key 0/7/11 in database app, ")
    assert finding.suggestion.startswith(
        "see what is known of it: pglock-inspect identify 0/7/11; an extension"
    )
    assert "key = " not in finding.suggestion


def test_an_overdue_job_is_missed_in_spite_of_a_step_of_the_clock() -> None:
    job = replace(NIGHTLY, every=100, min_held=1000)
    polls = (
        snapshot(0, lock_rows(1, 7)),
        snapshot(10),
        snapshot(3600 + 20, clock=20),
        snapshot(3600 + 99, clock=99),
        snapshot(3600 + 101, clock=101),
    )
    assert not found(_with_runs(job, *polls[:-1]), "missed")
    (finding,) = found(_with_runs(job, *polls), "missed")
    assert finding.summary.startswith("nightly has not been seen to run for 1 min 41 s")


def _with_runs(job: Job, *polls: Snapshot) -> Scene:
    runs = note_runs({}, watched(*polls[:1], jobs=[job]), [job])
    for number in range(2, len(polls) + 1):
        runs = note_runs(runs, watched(*polls[:number], jobs=[job]), [job])
    return scene(*polls, jobs=[job], runs=runs)


def _blocked(seconds: float, query_start: float = -3600) -> Snapshot:
    """A holder in an old statement that waits for a row, on a server that does not show since when."""
    holder = session(1, "active", query="SELECT work()", query_start=query_start)
    return snapshot(
        seconds,
        lock_rows(1, 7),
        sessions=[holder],
        server=OLD,
        other_waits=(OtherWait(1, "transactionid", "ShareLock"),),
        blocking={1: (2,)},
    )


def _with_waits(*polls: Snapshot) -> Scene:
    waits = note_waits({}, polls[0])
    for poll in polls[1:]:
        waits = note_waits(waits, poll)
    return scene(*polls, jobs=[NIGHTLY], other_waits=waits)


def test_a_wait_is_as_old_as_polls_have_seen_it_where_the_server_does_not_tell() -> None:
    polls = [_blocked(0), _blocked(9), _blocked(11)]
    assert not found(_with_waits(polls[0]), "holder-blocked")
    assert not found(_with_waits(*polls[:2]), "holder-blocked")
    (finding,) = found(_with_waits(*polls), "holder-blocked")
    assert "waited for a transactionid lock (ShareLock) for 11 s" in finding.summary
    assert finding.evidence.startswith("waits 11 s, blocked by pid 2; ")


def test_the_wait_of_another_statement_is_another_wait() -> None:
    assert not found(_with_waits(_blocked(0), _blocked(9), _blocked(11, query_start=10)), "holder-blocked")


def _build(
    holder_state: str | None, behind: int = 2, locktype: str = "virtualxid", holder: int | None = 1
) -> Scene:
    """An index build whose text is hidden, behind session 2, which waits for a lock of session 1."""
    return scene(
        snapshot(
            0,
            lock_rows(holder, 7),
            waiting(2, 7, since=-5),
            sessions=[session(1, holder_state, state_change=-60), session(2, None), session(3, None)],
            other_waits=(OtherWait(3, locktype, "ShareLock", at(-4)),),
            blocking={3: (behind,)},
        ),
        jobs=[NIGHTLY],
    )


def test_a_hidden_deadlock_shows_where_statements_are_hidden() -> None:
    (finding,) = found(_build("idle in transaction"), "hidden-deadlock")
    assert finding.evidence == "pid 3 waits for 4 s; pid 2 waits for 5 s; pid 1 idle for 1 min"


@pytest.mark.parametrize("other", [{"behind": 4}, {"locktype": "relation"}, {"holder": None}], ids=str)
def test_a_wait_for_somebody_else_or_for_a_table_or_a_prepared_transaction_is_no_deadlock(
    other: dict[str, Any],
) -> None:
    assert not found(_build("idle", **other), "hidden-deadlock")


@pytest.mark.parametrize("state", ["active", None])
def test_a_holder_that_is_not_known_to_be_idle_proves_no_deadlock(state: str | None) -> None:
    assert not found(_build(state), "hidden-deadlock")


def test_a_prepared_transaction_that_just_ended_is_not_named() -> None:
    job = replace(NIGHTLY, scope="transaction")
    polls = [snapshot(n * 4000, lock_rows(None, 7, transaction="5/44")) for n in (0, 1)]
    (finding,) = found(scene(*polls, jobs=[job]), "stale")
    assert "a prepared transaction (5/44) seems to have held it" in finding.summary
    assert finding.suggestion == "SELECT gid, database, prepared FROM pg_prepared_xacts"


def test_who_is_no_client_is_said_to_be_what_it_is() -> None:
    worker = session(2, "active", application_name="", backend_type="logical replication worker")
    one = scene(
        snapshot(100, lock_rows(1, 7), waiting(2, 7, since=0), sessions=[session(1), worker]), jobs=[NIGHTLY]
    )
    (finding,) = found(one, "waiting-long")
    assert finding.summary.startswith(
        "nightly: pid 2 (app, logical replication worker) has waited for 1 min 40 s"
    )


def test_one_name_in_one_transaction_after_another_is_no_pooler() -> None:
    """Locks for a transaction only, which two clients take in turn on one session of a pooler."""
    polls = [
        snapshot(
            n,
            lock_rows(1, 7),
            sessions=[session(1, "idle in transaction", state_change=n - 1, application_name=f"client-{n}")],
        )
        for n in range(3)
    ]
    assert not found(scene(*polls, jobs=[NIGHTLY]), "pooler")


@pytest.mark.parametrize("state", ["idle", "idle in transaction"])
def test_silence_from_before_a_step_of_the_clock_is_not_measured(state: str) -> None:
    silent = session(1, state, state_change=-4000, query="SELECT 1")
    rows = lock_rows(1, 7), lock_rows(None, 8, transaction="5/44")
    ended = {"5/44": prepared("payout-17", -4000)}
    polls = [
        snapshot(seconds, *rows, sessions=[silent], prepared=ended, clock=clock)
        for seconds, clock in ((0, 0), (7200, 1))
    ]
    rules = {"leaked", "idle-in-transaction", "no-heartbeat", "stale", "prepared"}
    jobs = [replace(NIGHTLY, heartbeat=30)]
    before, after = (judge(scene(*polls[:number], jobs=jobs)) for number in (1, 2))
    assert rules & {finding.rule for finding in before} > {"no-heartbeat", "stale", "prepared"}
    assert not rules & {finding.rule for finding in after}


def test_a_prepared_transaction_owes_no_beat() -> None:
    rows = lock_rows(None, 7, transaction="5/44")
    one = scene(
        snapshot(0, rows, prepared={"5/44": prepared("payout-17", -4000)}),
        jobs=[replace(NIGHTLY, heartbeat=30)],
    )
    assert {finding.rule for finding in judge(one)} == {"prepared", "stale"}


def test_a_replica_on_a_connection_of_its_own_leaks_nothing() -> None:
    replica = session(1, "idle", state_change=-4000, query="SELECT 1", backend_type="walsender")
    assert not found(scene(snapshot(0, lock_rows(1, 7), sessions=[replica])), "leaked")


def test_a_rule_may_be_off_or_of_another_severity() -> None:
    one = scene(snapshot(0, lock_rows(1, 7), sessions=[session(1, "active")]))
    assert [(each.rule, each.severity) for each in judge(one)] == [("unnamed", "info")]
    (finding,) = judge(one, {"unnamed": RuleSettings(severity="critical")})
    assert finding.severity == "critical"
    assert not judge(one, {"unnamed": RuleSettings(severity="off")})


def test_a_namespace_of_a_great_many_keys_is_one_finding_each() -> None:
    keys = frozenset(packed((7, n)) for n in range(20_000))
    rows = [replace(lock_rows(pid, (7, 0), database=4 + pid), keys=keys) for pid in (1, 2)]
    findings = judge(scene(snapshot(0, *rows), snapshot(4000, *rows), jobs=[Job("tenants", first=7)]))
    assert sorted(finding.rule for finding in findings) == [
        *["many-locks-one-session"] * 2,
        "same-key-two-databases",
        *["stale"] * 2,
    ]

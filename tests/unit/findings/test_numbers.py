"""What rules say of one key, one holder or one waiter, and of several."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pglock_inspect.findings import judge
from pglock_inspect.model import Job, Limits, OtherWait, RuleSettings
from tests.support.polls import SERVER, at, lock_rows, packed, prepared, scene, session, snapshot, waiting

if TYPE_CHECKING:
    from pglock_inspect.model import Snapshot

NIGHTLY = Job("nightly", key=lock_rows(1, 99).key(packed(99)))
SMALL = replace(SERVER, privileged=False, role="app", max_connections=100, lock_slots_guaranteed=100)
THRESHOLDS = {
    rule: RuleSettings(threshold=threshold)
    for rule, threshold in (
        ("many-locks-one-session", 1),
        ("lock-table-filling", 0),
        ("vacuum-held-back", 10),
    )
}
KEYS = {1: (7,), 2: (7, 8)}
CALLED = {1: ("key 7", "is", "it"), 2: ("2 keys without a name", "are", "them")}

WRONG = re.compile(
    r"\b1 (?:\w+ )?(?:keys|locks|holders|polls|transactions|sessions|names)\b"
    r"|\b[2-9] (?:\w+ )?(?:key|lock|holder|poll|transaction|session|name)\b"
    r"|\bkeys without a name (?:is|has|was)\b|\bkey \S+ (?:are|have|were)\b"
)


def told(*polls: Snapshot) -> dict[str, str]:
    """The summaries by rule, after a look for a wrong number in all that is said."""
    limits = Limits(max_held=100, max_wait=10)
    findings = judge(scene(*polls, jobs=[NIGHTLY], limits=limits), THRESHOLDS)
    for finding in findings:
        for text in (finding.summary, finding.evidence, finding.suggestion):
            assert not WRONG.search(text), text
    return {finding.rule: finding.summary for finding in findings}


@pytest.mark.parametrize("number", [1, 2])
def test_keys_of_an_idle_holder(number: int) -> None:
    title, be, it = CALLED[number]
    worker = session(1, query="COMMIT", state_change=0, backend_start=-10)
    rows = lock_rows(1, *KEYS[number])
    polls = [
        snapshot(300 + second, rows, sessions=[replace(worker, application_name=name)], server=SMALL)
        for second, name in enumerate(("api", "report"))
    ]
    said = told(*polls)
    who = "pid 1 (app, report)"
    assert said["stale"].startswith(f"{title} {be} stale: {who} has held {it} for 5 min 1 s, ")
    assert said["leaked"].startswith(f"{title} may have been left behind: {who} has been idle for ")
    assert said["pooler"].startswith(f"{title}: {who} went by 2 names while it held {it}; ")
    assert said["many-locks-one-session"] == f"{who} holds {number} advisory lock{'s' * (number > 1)}"


@pytest.mark.parametrize("number", [1, 2])
def test_keys_of_a_blocked_writer(number: int) -> None:
    title, be, it = CALLED[number]
    writer = session(
        1,
        "active",
        xact_start=0,
        query_start=250,
        query="UPDATE t SET a = 1",
        xmin_age=number,
        backend_start=-10,
    )
    wait = OtherWait(1, "transactionid", "ShareLock", at(200))
    said = told(
        snapshot(
            300,
            lock_rows(1, *KEYS[number]),
            *(waiting(pid, 7, since=200) for pid in range(2, 2 + number)),
            sessions=[writer, session(9, "idle in transaction")],
            other_waits=(wait,),
            blocking={1: (9,)},
            server=SMALL,
        )
    )
    who = "pid 1 (app, worker-1)"
    assert said["could-be-stale"].startswith(
        f"{title} could be stale: {who} may have held {it} for up to 5 min"
    )
    assert said["holder-blocked"].startswith(f"{title} {be} held by {who}, which has itself waited for ")
    assert said["vacuum-held-back"].startswith(f"{title}: {who}, which holds {it}, has kept VACUUM from ")
    assert {"waiting-long", "no-pg-monitor", "unnamed"} <= said.keys()


@pytest.mark.parametrize("number", [1, 2])
def test_keys_of_a_prepared_transaction(number: int) -> None:
    title, be, _ = CALLED[number]
    rows = lock_rows(None, *KEYS[number], transaction="-1/9")
    said = told(snapshot(500, rows, prepared={"-1/9": prepared("left", 0)}))
    assert said["prepared"].startswith(f"{title} {be} held by prepared transaction 'left', prepared 8 min")


@pytest.mark.parametrize(("number", "said"), [(1, "1 lock"), (2, "2 locks")])
def test_locks_in_the_table(number: int, said: str) -> None:
    assert (
        f"the lock table holds {said}, "
        in told(snapshot(0, lock_rows(1, *KEYS[number]), lock_table_rows=number, server=SMALL))[
            "lock-table-filling"
        ]
    )


@pytest.mark.parametrize("polls", [1, 2])
def test_polls_since_a_step_of_the_clock(polls: int) -> None:
    assert "clock-step" in told(snapshot(0), *(snapshot(3600 + n, clock=n) for n in range(1, 2 + polls)))


@pytest.mark.parametrize(("holders", "said"), [(2, "2 locks"), (3, "3 locks")])
def test_one_key_of_several_holders(holders: int, said: str) -> None:
    locks = [lock_rows(pid, 7, mode="ShareLock") for pid in range(1, 1 + holders)]
    summary = f"{said} in database app, held by {holders} holders, have no name"
    assert told(snapshot(0, *locks))["unnamed"] == summary

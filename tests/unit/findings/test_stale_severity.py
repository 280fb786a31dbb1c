from __future__ import annotations

import pytest

from pglock_inspect.findings import Scene, judge
from pglock_inspect.holds import History, fold
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Finding, Instant, Job, Limits, LockRows, Server, Session, Snapshot
from pglock_inspect.names import ConfiguredNames, NameBook

JOB = Job("index", key=AdvisoryKey.from_bigint(7), limits=Limits(max_held=10))
ROWS = LockRows(1, "3/1", 5, 1, "ExclusiveLock", granted=True, keys=frozenset({7}))


def stale_after(idle_since: float, polls: tuple[float, ...]) -> Finding:
    """What is found at the last of `polls`; all times are seconds."""
    book, history = NameBook(ConfiguredNames([JOB])), History()
    for now in polls:
        idle = now >= idle_since
        session = Session(
            1,
            state="idle" if idle else "active",
            state_change=Instant(round(idle_since * 1e6)) if idle else None,
            backend_type="client backend",
            backend_start=Instant(0),
        )
        snapshot = Snapshot(
            Instant(round(now * 1e6)), now, now, Server("18", 180000, "app"), (ROWS,), {1: session}
        )
        history = fold(history, snapshot, book)
    (finding,) = [each for each in judge(Scene(history, jobs=(JOB,))) if each.rule == "stale"]
    return finding


@pytest.mark.parametrize(
    ("idle_since", "severity"),
    [
        (4.0, "critical"),  # idle for 16 s under the lock, which proves more than the limit
        (15.0, "warning"),  # idle for 5 s: before that, nothing but two polls speaks for one hold
    ],
)
def test_what_is_proven_is_critical_even_where_polls_tell_of_more(idle_since: float, severity: str) -> None:
    finding = stale_after(idle_since, (2.0, 3.0, 20.0))
    assert "evidence: observed" in finding.evidence
    assert finding.severity == severity

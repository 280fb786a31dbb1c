from __future__ import annotations

import pytest
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, JobState, Name
from pglock_inspect.present.expectations import Expectations
from pglock_inspect.present.verdict import Status, judge
from tests.support.reports import HOLDER, PREPARED, STALE, UNREACHABLE, WAITER, make_report

DIGEST = Job("send_daily_digest")
HELD = replace(make_report(HOLDER, WAITER), jobs=(JobState(DIGEST, "app", held=1, waiters=1),))
FREE = replace(make_report(), jobs=(JobState(DIGEST, None),))
TENANTS = Job("tenants", match="tenant:*")
TENANT = replace(HOLDER, name=Name("tenant:7", "query", job=TENANTS))


def test_what_is_as_expected() -> None:
    assert Expectations(held=("send_daily_digest",)).met(HELD)
    assert Expectations(free=("send_daily_digest",), no_locks=True).met(FREE)
    assert Expectations(held=("tenants",)).met(replace(make_report(TENANT), jobs=(JobState(TENANTS, "app"),)))
    assert Expectations().met(HELD)


def test_a_server_that_was_not_read_meets_nothing_and_has_no_finding_more() -> None:
    expected = Expectations(held=("send_daily_digest",), no_locks=True)
    assert not expected.met(UNREACHABLE)
    assert [*expected.unmet(UNREACHABLE)] == []


def test_nobody_holds_what_must_be_held() -> None:
    waited_for = replace(make_report(WAITER), jobs=(JobState(DIGEST, "app", waiters=1),))
    (finding,) = Expectations(held=("send_daily_digest",)).unmet(waited_for)
    assert (finding.rule, finding.severity, finding.job) == ("must-be-held", "critical", "send_daily_digest")
    assert finding.summary == "send_daily_digest must be held, and nobody holds it"
    assert finding.evidence == "held by nobody, waited for by 1"
    assert finding.suggestion.endswith("pglock-inspect key send_daily_digest")


def test_a_job_that_is_known_by_a_lock_alone_must_be_held_too() -> None:
    (finding,) = Expectations(held=("send_daily_digest",)).unmet(make_report(WAITER))
    assert finding.summary == "send_daily_digest must be held, and nobody holds it"


def test_somebody_holds_what_must_be_free() -> None:
    (finding,) = Expectations(free=("send_daily_digest",)).unmet(HELD)
    assert (finding.rule, finding.severity, finding.pid) == ("must-be-free", "critical", 4711)
    assert finding.summary == "send_daily_digest must be free, and pid 4711 (app, worker-3) holds it"
    assert finding.evidence.startswith("held 42 min, at least 42 min")
    assert finding.suggestion == (
        "wait for its end (--within), or end it: pglock-inspect kill 4711 --terminate"
    )


def test_whatever_is_left_in_this_database_is_told_by_process() -> None:
    more = [replace(HOLDER, key=AdvisoryKey.from_bigint(number), name=None) for number in range(1, 4)]
    elsewhere = replace(HOLDER, database="other", pid=1)
    findings = [*Expectations(no_locks=True).unmet(make_report(WAITER, *more, HOLDER, PREPARED, elsewhere))]
    assert [finding.summary for finding in findings] == [
        (
            "pid 4711 (app, worker-3) holds key 1, key 2, key 3 and 1 more, "
            "where database app must have no lock left"
        ),
        "prepared transaction 'transfer-17' holds key 7,-42, where database app must have no lock left",
        "pid 4720 (app, worker-1) waits for send_daily_digest, where database app must have no lock left",
    ]
    assert findings[0].evidence.startswith("4 locks; held 42 min")
    assert [finding.suggestion.rpartition(": ")[2] for finding in findings] == [
        "pglock-inspect kill 4711 --terminate",
        "pglock-inspect why 7,-42",
        "pglock-inspect kill 4720 --terminate",
    ]
    assert [finding.job for finding in findings] == [None, None, "send_daily_digest"]
    assert [finding.key for finding in findings] == [None, PREPARED.key, WAITER.key]


@pytest.mark.parametrize(("severity", "status"), [("info", Status.OK), ("warning", Status.WARNING)])
def test_what_is_unmet_counts_beside_the_chosen_jobs(severity: str, status: Status) -> None:
    (finding,) = Expectations(held=("send_daily_digest",)).unmet(FREE)
    report = replace(FREE, findings=(STALE,))
    verdict = judge(report, ["another"], [replace(finding, severity=severity)])
    assert verdict.status is status
    assert [found.rule for found in verdict.report.findings] == ["must-be-held", "stale"]


def test_the_worst_alarm_comes_first() -> None:
    (finding,) = Expectations(held=("send_daily_digest",)).unmet(FREE)
    verdict = judge(replace(FREE, findings=(STALE,)), unmet=[replace(finding, severity="warning")])
    assert [alarm.rule for alarm in verdict.alarms] == ["stale", "must-be-held"]

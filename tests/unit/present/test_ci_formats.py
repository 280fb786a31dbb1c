from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from hypothesis import given, strategies as st
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from pglock_inspect.findings import RULES
from pglock_inspect.model import Job, JobState, Limits
from pglock_inspect.present import github, junit, prometheus
from pglock_inspect.present.metrics import GAUGES
from pglock_inspect.present.verdict import judge
from tests.support.any_reports import failures, reports
from tests.support.reports import HOLDER, PREPARED, STALE, UNREACHABLE, WAITER, ago, make_report

if TYPE_CHECKING:
    from pglock_inspect.model import Report

DIGEST = JobState(
    Job("send_daily_digest", limits=Limits(max_held=600.0), every=86_400.0),
    "app",
    held=1,
    waiters=1,
    stale=1,
    held_seconds=2_520.0,
    wait_seconds=None,
    last_held=ago(0),
)
BACKUP = JobState(Job("backup", long_lived=True), None)
REPORT = replace(make_report(HOLDER, WAITER, PREPARED, findings=(STALE,)), jobs=(DIGEST, BACKUP))
ELSEWHERE = replace(STALE, job=None, rule="prepared", severity="warning")


def suite_of(report: Report) -> ET.Element:
    suite = ET.fromstring(junit.judged([judge(report)])).find("testsuite")
    assert suite is not None
    return suite


def test_junit_has_a_test_per_job_and_per_other_alarm() -> None:
    suite = suite_of(replace(REPORT, findings=(STALE, ELSEWHERE)))
    assert [case.get("name") for case in suite] == [
        "send_daily_digest",
        "backup",
        "prepared: key -1957215242",
    ]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "2", "0")
    failure = suite[0].find("failure")
    assert failure is not None
    assert failure.attrib == {"type": "critical", "message": STALE.summary}
    assert failure.text == f"{STALE.summary}\n{STALE.evidence}\ndo: {STALE.suggestion}"
    assert len(suite[1]) == 0


def test_junit_is_never_without_a_test() -> None:
    (case,) = suite_of(make_report())
    assert (case.get("name"), len(case)) == ("server", 0)


def test_junit_shows_a_server_that_could_not_be_read_as_an_error() -> None:
    suite = suite_of(replace(UNREACHABLE, failure="lock_table_full"))
    error = suite[0].find("error")
    assert error is not None
    assert error.attrib == {"type": "CRITICAL", "message": UNREACHABLE.error}
    assert suite.get("errors") == "1"


def test_github_annotates() -> None:
    warning = replace(ELSEWHERE, summary="100 % of: a, b", evidence="x", suggestion="y")
    assert github.judged(
        [judge(make_report(findings=(STALE, warning))), judge(UNREACHABLE)]
    ).splitlines() == [
        f"::error title=stale localhost%3A5432::{STALE.summary}%0A{STALE.evidence}%0Ado: {STALE.suggestion}",
        "::warning title=prepared localhost%3A5432::100 %25 of: a, b%0Ax%0Ado: y",
        f"::error title=UNKNOWN db.example.org%3A5432::{UNREACHABLE.error}",
    ]
    assert (
        github.judged([judge(make_report(HOLDER))]) == "::notice title=OK localhost%3A5432::1 held, 0 waiting"
    )


def samples(*reports: Report) -> dict[str, dict[tuple[str, ...], float]]:
    """Values by metric and by labels but the target, in the order of their names."""
    text = prometheus.judged([judge(report) for report in reports]).decode()
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text + "\n"):
        for sample in family.samples:
            labels = tuple(value for name, value in sorted(sample.labels.items()) if name != "target")
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def test_prometheus_metrics() -> None:
    found = samples(REPORT)
    assert found["pglock_up"] == {(): 1}
    assert found["pglock_last_poll_timestamp_seconds"] == {(): 1796004000.123456}
    assert found["pglock_poll_duration_seconds"] == {(): 0.0021}
    assert found["pglock_locks"] == {("app", "held"): 2, ("app", "waiting"): 1}
    assert found["pglock_findings"]["stale", "critical"] == 1
    assert len(found["pglock_findings"]) == 3 * len(RULES)
    assert found["pglock_job_held"] == {("app", "send_daily_digest"): 1, ("", "backup"): 0}
    assert found["pglock_job_held_seconds"] == {("app", "send_daily_digest"): 2_520, ("", "backup"): 0}
    assert found["pglock_job_wait_seconds"] == {("", "backup"): 0}  # the other's is not known
    assert found["pglock_job_max_held_seconds"] == {("app", "send_daily_digest"): 600}
    assert found["pglock_job_every_seconds"] == {("app", "send_daily_digest"): 86_400}
    assert found["pglock_job_last_held_timestamp_seconds"] == {
        ("app", "send_daily_digest"): 1796004000.123456
    }
    assert found.keys() >= {gauge.name for gauge in GAUGES}


def test_prometheus_counts_what_is_no_rule_but_was_expected() -> None:
    found = samples(replace(REPORT, findings=(replace(STALE, rule="no-locks"),)))["pglock_findings"]
    assert found["no-locks", "critical"] == 1
    assert len(found) == 3 * (len(RULES) + 1)


def test_prometheus_metrics_of_a_server_that_is_down() -> None:
    found = samples(UNREACHABLE)
    assert found.keys() == {"pglock_build_info", "pglock_up"}
    assert found["pglock_up"] == {(): 0}


@given(st.one_of(reports(), failures()))
def test_any_report_can_be_parsed_and_is_inert(report: Report) -> None:
    verdict = judge(report)
    xml = junit.judged([verdict])
    assert xml.replace("\n", "").isprintable()
    assert xml.isascii()
    ET.fromstring(xml)
    for line in github.judged([verdict]).split("\n"):
        assert line.isprintable()
        assert re.match(r"::(error|warning|notice) title=[^,:]*::", line)
        assert not re.search(r"%(?!25|0A|3A|2C)", line)
    text = prometheus.judged([verdict]).decode()
    assert all(line.isprintable() for line in text.splitlines())
    assert [*text_string_to_metric_families(text + "\n")]

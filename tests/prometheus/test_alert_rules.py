"""The alert rules, evaluated by promtool: what makes each alert fire, and what comes close and must not."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from pglock_inspect.findings import RULES
from pglock_inspect.model import SEVERITIES
from pglock_inspect.present.metrics import COUNTERS, GAUGES, POLLING
from tests.support.requirements import program

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
FILE = ROOT / "dashboards" / "alerts.yml"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]
}
EXPORTER = 'job="locks", instance="db1:10187"'
DIGEST = 'database="app", name="daily digest"'
SYNC = 'database="", name="sync"'

QUIET = {
    "up": "1x30",
    "pglock_up": "1x30",
    "pglock_last_poll_timestamp_seconds": "0+60x30",
    "pglock_lock_table_rows": "90x30",
    "pglock_lock_slots_guaranteed": "60x30",
    **{
        f'pglock_findings|rule="{rule}", severity="{severity}"': "0x30"
        for rule in ("stale", "missed", "never-seen", "leaked", "unnamed")
        for severity in SEVERITIES
    },
    f"pglock_job_held|{DIGEST}": "1x30",
    f"pglock_job_stale|{DIGEST}": "0x30",
    f"pglock_job_waiters|{DIGEST}": "2x30",
    f"pglock_job_held_seconds|{DIGEST}": "0+60x30",
    f"pglock_job_max_held_seconds|{DIGEST}": "600x30",
    f"pglock_job_every_seconds|{DIGEST}": "600x30",
    f"pglock_job_last_held_timestamp_seconds|{DIGEST}": "0+60x30",
    f"pglock_job_stale|{SYNC}": "0x30",
    f"pglock_job_held_seconds|{SYNC}": "0x30",
    f"pglock_job_every_seconds|{SYNC}": "600x30",
    f"pglock_job_last_held_timestamp_seconds|{SYNC}": "0+60x30",
}
"""Everything in order for half an hour, in samples of each minute, by metric and labels."""

Changes = dict[str, str | None]
"""What differs from `QUIET`; a series that is None is not there."""


def found(rule: str, severity: str, samples: str = "1x30") -> Changes:
    return {f'pglock_findings|rule="{rule}", severity="{severity}"': samples}


class Case(NamedTuple):
    """What an alert fires for after half an hour, with which labels, and what is close."""

    fires: Changes
    labels: str
    close: Mapping[str, Changes]


def about(rule: str, severity: str) -> Case:
    """Return the case of an alert that says no more than that there is such a finding."""
    return Case(
        found(rule, severity),
        f'target="prod", rule="{rule}", severity="{severity}"',
        {
            "as information": found(rule, "info"),
            "just now": found(rule, severity, "0x30 1"),
            "until just now": found(rule, severity, "1x29 0"),
        },
    )


STALE = f"pglock_job_stale|{DIGEST}"
LAST_SYNC = f"pglock_job_last_held_timestamp_seconds|{SYNC}"
LAST_POLL = "pglock_last_poll_timestamp_seconds"


def until(minutes: int) -> Changes:
    """Return what is scraped so long, and no more."""
    return {key: samples.replace("x30", f"x{minutes} stale") for key, samples in QUIET.items()}


CASES = {
    "PglockJobStale": Case(
        {STALE: "1x30", **found("stale", "critical")},
        f'target="prod", {DIGEST}, severity="critical"',
        {
            "the rule is off": {STALE: "1x30"},
            "just now": {STALE: "0x29 1", **found("stale", "critical", "0x29 1")},
            "released": {STALE: "1x29 0", **found("stale", "critical", "1x29 0")},
        },
    ),
    "PglockJobMissed": Case(
        {LAST_SYNC: "0x30", **found("missed", "critical")},
        f'target="prod", {SYNC}, severity="critical"',
        {
            "its runs are too short to be seen": {LAST_SYNC: "0x30"},
            "as information": {LAST_SYNC: "0x30", **found("missed", "info")},
            "it ran": {LAST_SYNC: "0x29 1800", **found("missed", "critical", "1x29 0")},
        },
    ),
    "PglockJobNeverSeen": Case(
        {LAST_SYNC: None, **found("never-seen", "warning")},
        f'target="prod", {SYNC}, severity="warning"',
        {"it was not watched for long": {LAST_SYNC: None}, "it ran": found("never-seen", "warning")},
    ),
    "PglockLockStale": about("stale", "warning"),
    "PglockLeaked": about("leaked", "warning"),
    "PglockPrepared": about("prepared", "critical"),
    "PglockHolderBlocked": about("holder-blocked", "warning"),
    "PglockWaitingLong": about("waiting-long", "warning"),
    "PglockPooler": about("pooler", "warning")._replace(
        close={
            "as information": found("pooler", "info"),
            "just now": found("pooler", "warning", "0x29 1"),
            "long ago": found("pooler", "warning", "1x14 0x15"),
        }
    ),
    "PglockFinding": about("hidden-deadlock", "critical"),
    "PglockLockTableFilling": about("lock-table-filling", "warning"),
    "PglockExporterDown": Case(
        {**until(10), "up": "1x10 0x19"},
        'job="locks", instance="db1:10187", severity="critical"',
        {
            "just now": {"up": "1x28 0x1"},
            "something else is down": {'up{job="node", instance="db1:9100"}': "0x30"},
        },
    ),
    "PglockNotWatched": Case(
        until(10),
        'job="locks", target="prod", severity="warning"',
        {
            "just now": until(26),
            "it is watched from elsewhere": {
                **until(10),
                'pglock_up{job="locks", instance="db2:10187", target="prod"}': "_x11 1x19",
            },
        },
    ),
    "PglockPollFailing": Case(
        {**dict.fromkeys(QUIET), "up": "1x30", "pglock_up": "0x30", LAST_POLL: "0x30"},
        'target="prod", severity="critical"',
        {"just now": {"pglock_up": "1x28 0x1"}},
    ),
    "PglockReportTooOld": Case(
        {LAST_POLL: "0x30"},
        'target="prod", severity="warning"',
        {
            "five minutes": {LAST_POLL: "0+60x25 1500x4"},
            "the server is down": {LAST_POLL: "0x30", "pglock_up": "1x29 0"},
        },
    ),
}


def series(name: str) -> str:
    metric, _, labels = name.partition("|")
    if "{" in metric:
        return metric
    target = [] if metric == "up" else ['target="prod"']
    return f"{metric}{{{', '.join([EXPORTER, *target, labels])}}}"


def situation(name: str, changes: Changes, **test: object) -> dict[str, object]:
    samples = {**QUIET, **changes}
    given = [{"series": series(key), "values": values} for key, values in samples.items() if values]
    return {"name": name, "interval": "1m", "input_series": given, **test}


def firing(alerts: Mapping[str, str], at: str = "30m") -> dict[str, object]:
    """Return a query for all that fires: these alerts, given with their labels, and no other."""
    samples = [
        {"labels": f'ALERTS{{alertname="{alert}", alertstate="firing", {labels}}}', "value": 1}
        for alert, labels in alerts.items()
    ]
    return {"expr": 'ALERTS{alertstate="firing"}', "eval_time": at, "exp_samples": samples}


def labelled(labels: str) -> str:
    return labels if "job=" in labels else f"{EXPORTER}, {labels}"


def evaluate(directory: Path, *tests: dict[str, object], every: str = "1m") -> None:
    plan = {"rule_files": [str(FILE)], "evaluation_interval": every, "tests": tests}
    (directory / "test.yml").write_text(json.dumps(plan))
    command = [program("promtool"), "test", "rules", str(directory / "test.yml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_rules_are_valid() -> None:
    check = [program("promtool"), "check", "rules", "--lint=all", "--lint-fatal", str(FILE)]
    subprocess.run(check, check=True)


def test_init_writes_these_rules() -> None:
    assert FILE.resolve() == ROOT / "pglock_inspect" / "data" / "alerts.yml"


def test_it_asks_for_nothing_that_the_exporter_does_not_have() -> None:
    asked = FILE.read_text().partition("\ngroups:")[2]
    metrics = {measure.name for measure in (*POLLING, *GAUGES, *COUNTERS)}
    assert set(re.findall(r"\bpglock_\w+", asked)) <= metrics
    rules = "|".join(re.findall(r'rule!?[=~]+"([\w|-]+)"', asked)).split("|")
    assert set(rules) <= {rule.name for rule in RULES}


def test_every_alert_has_what_fires_and_what_is_close() -> None:
    assert CASES.keys() == ALERTS.keys()
    assert all(case.close for case in CASES.values())


@pytest.mark.parametrize("alert", ALERTS)
def test_what_every_alert_has(alert: str) -> None:
    rule = ALERTS[alert]
    assert rule["for"]
    assert rule["labels"]["severity"] in {"critical", "warning", "{{ $labels.severity }}"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    assert len(rule["annotations"]["summary"].splitlines()) == 1


@pytest.mark.parametrize("alert", ALERTS)
def test_every_runbook_is_there(alert: str) -> None:
    page, _, anchor = ALERTS[alert]["annotations"]["runbook"].partition("#")
    sections = re.findall(r"^## ([\w-]+)$", (ROOT / page).read_text(), re.MULTILINE)
    anchors = [rule.name for rule in RULES] if "{{ $labels.rule }}" in anchor else [anchor]
    assert set(anchors) <= set(sections)


def test_all_is_quiet(tmp_path: Path) -> None:
    evaluate(tmp_path, situation("in order", {}, promql_expr_test=[firing({})]))


@pytest.mark.parametrize("alert", CASES)
def test_it_fires_alone_and_not_when_close(alert: str, tmp_path: Path) -> None:
    fires, labels, close = CASES[alert]
    evaluate(
        tmp_path,
        situation("fires", fires, promql_expr_test=[firing({alert: labelled(labels)})]),
        *(situation(name, changes, promql_expr_test=[firing({})]) for name, changes in close.items()),
    )


@pytest.mark.parametrize(
    ("alert", "changes"),
    [
        ("PglockJobMissed", {LAST_SYNC: "0x30", **found("missed", "warning")}),
        ("PglockJobNeverSeen", {LAST_SYNC: None, **found("never-seen", "critical")}),
        ("PglockLockStale", found("stale", "critical")),
        ("PglockWaitingLong", found("waiting-long", "critical")),
    ],
)
def test_its_severity_is_that_of_the_finding(alert: str, changes: Changes, tmp_path: Path) -> None:
    (severity,) = re.findall(r'severity="(\w+)"', " ".join(changes))
    labels = re.sub(r'severity="\w+"', f'severity="{severity}"', CASES[alert].labels)
    evaluate(tmp_path, situation(alert, changes, promql_expr_test=[firing({alert: labelled(labels)})]))


def test_an_exporter_that_is_down_for_two_days(tmp_path: Path) -> None:
    down = {**until(10), "up": "1x10 0x2870"}
    alerts = {"PglockExporterDown": CASES["PglockExporterDown"].labels}
    checks = [firing(alerts, at) for at in ("20m", "20h", "25h", "48h")]
    evaluate(tmp_path, situation("down", down, promql_expr_test=checks), every="5m")


def test_a_target_that_was_given_up_is_forgotten_after_a_day(tmp_path: Path) -> None:
    given_up = {
        **until(10),
        'pglock_up{job="locks", instance="db2:10187", target="other"}': "1x1500",
        "up": "1x1500",
    }
    alerts = {"PglockNotWatched": CASES["PglockNotWatched"].labels}
    checks = [firing(alerts, "23h"), firing({}, "25h")]
    evaluate(tmp_path, situation("given up", given_up, promql_expr_test=checks), every="5m")


def test_rules_without_any_exporter(tmp_path: Path) -> None:
    nothing = dict.fromkeys(QUIET)
    alerts = {"PglockNotWatched": 'severity="warning"'}
    evaluate(tmp_path, {**situation("nothing", nothing), "promql_expr_test": [firing(alerts)]})


SAID = {
    "PglockJobStale": """Job daily digest has held its lock on prod for 30m 0s, longer than it may
        Its limit is 10m 0s. Waiting for it: 2. It hangs, or its session was left behind, and no other run
        can start. `pglock-inspect why 'daily digest'` tells who holds it and how to end that.""",
    "PglockJobMissed": """Job sync has not run on prod for 30m 0s
        It should every 10m 0s. Its schedule, its scheduler or every replica of it may have stopped: look
        there, and into its log.""",
    "PglockWaitingLong": """Sessions have waited too long for locks on prod
        Each takes a connection. Waiting for daily digest: 2. `pglock-inspect ls --waiting` shows who waits
        for whom.""",
    "PglockLockTableFilling": """The lock table of prod is filling
        It holds 150% of what is guaranteed to fit. When it is full, statements and logins fail with "out of
        shared memory". End what holds most of the locks, or raise max_locks_per_transaction and restart.""",
    "PglockPollFailing": """The exporter cannot read prod
        No other alert about its locks can fire. The reason is too_many_connections. `pglock-inspect check`
        with the same connection tells it in a sentence.""",
    "PglockNotWatched": """The locks of prod are no longer watched
        Prometheus has nothing to scrape for it, or the exporter was told to leave it out. If that is meant,
        this ends by itself within a day.""",
}
"""The summary, and below it the description."""

FAILURES = {
    f'pglock_poll_failures_total|reason="{reason}"': samples
    for reason, samples in {"auth": "7x30", "timeout": "0x25 1x4", "too_many_connections": "0+1x30"}.items()
}


@pytest.mark.parametrize("alert", SAID)
def test_what_it_says(alert: str, tmp_path: Path) -> None:
    fires, labels, _ = CASES[alert]
    summary, _, description = SAID[alert].partition("\n")
    expected = {
        "exp_labels": dict(re.findall(r'(\w+)="([^"]+)"', labelled(labels))),
        "exp_annotations": {
            "summary": summary,
            "description": " ".join(description.split()),
            "runbook": ALERTS[alert]["annotations"]["runbook"],
        },
    }
    check = {"eval_time": "30m", "alertname": alert, "exp_alerts": [expected]}
    evaluate(tmp_path, situation("fires", {**FAILURES, **fires}, alert_rule_test=[check]))

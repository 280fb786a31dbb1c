"""The alert rules, evaluated by promtool: which alerts fire in which situation."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.support.requirements import program

if TYPE_CHECKING:
    from pathlib import Path

SCRAPED = '{job="pglock-inspect", instance="localhost:10187", target="prod"%s}'
QUIET = {
    'up{job="pglock-inspect", instance="localhost:10187"}': "1x20",
    "pglock_up": "1x20",
    "pglock_last_poll_timestamp_seconds": "0+60x20",
    **{
        f'pglock_findings|rule="{rule}", severity="{severity}"': "0x20"
        for rule in ("stale", "missed", "never-seen", "leaked", "pooler")
        for severity in ("info", "warning", "critical")
    },
    'pglock_job_stale|database="app", name="digest"': "0x20",
    'pglock_job_held_seconds|database="app", name="digest"': "0+60x20",
    'pglock_job_every_seconds|database="app", name="digest"': "600x20",
    'pglock_job_last_held_timestamp_seconds|database="app", name="digest"': "0+60x20",
    'pglock_job_every_seconds|database="", name="sync"': "600x20",
    'pglock_job_last_held_timestamp_seconds|database="", name="sync"': "0+60x20",
}
"""Everything in order, for twenty minutes of one sample each."""


class Situation(NamedTuple):
    """What differs from `QUIET` (a series without samples is left out) and what then fires at its end."""

    series: dict[str, str]
    fires: dict[str, str]


def finding(rule: str, severity: str) -> dict[str, str]:
    return {f'pglock_findings|rule="{rule}", severity="{severity}"': "1x20"}


LAST_HELD = 'pglock_job_last_held_timestamp_seconds|database="", name="sync"'
DIGEST = 'database="app", name="digest"'
SYNC = 'database="", name="sync"'

SITUATIONS = {
    "in order": Situation({}, {}),
    "a stale job": Situation(
        {f"pglock_job_stale|{DIGEST}": "1x20", **finding("stale", "critical")},
        {"PglockJobStale": f'{DIGEST}, severity="critical"'},
    ),
    "a job whose rule is off": Situation({f"pglock_job_stale|{DIGEST}": "1x20"}, {}),
    "a stale lock of no job": Situation(
        finding("stale", "warning"), {"PglockLockStale": 'rule="stale", severity="warning"'}
    ),
    "a job that stopped": Situation(
        {LAST_HELD: "0x20", **finding("missed", "critical")},
        {"PglockJobMissed": f'{SYNC}, severity="critical"'},
    ),
    "a job that is too short to be seen": Situation({LAST_HELD: "0x20"}, {}),
    "a job that never ran": Situation(
        {LAST_HELD: "", **finding("never-seen", "warning")},
        {"PglockJobNeverSeen": f'{SYNC}, severity="warning"'},
    ),
    "a job not seen yet": Situation({LAST_HELD: ""}, {}),
    **{
        f"{rule}, {severity}": Situation(
            finding(rule, severity), {alert: f'rule="{rule}", severity="{severity}"'}
        )
        for alert, rule, severity in (
            ("PglockWaitingLong", "waiting-long", "warning"),
            ("PglockWaitingLong", "waiting-long", "critical"),
            ("PglockLeaked", "leaked", "warning"),
            ("PglockPrepared", "prepared", "critical"),
            ("PglockHolderBlocked", "holder-blocked", "warning"),
            ("PglockPooler", "pooler", "warning"),
            ("PglockLockTableFilling", "lock-table-filling", "warning"),
            ("PglockFinding", "hidden-deadlock", "critical"),
        )
    },
    **{
        f"{rule}, as information": Situation(finding(rule, "info"), {})
        for rule in ("leaked", "lock-table-filling", "could-be-stale", "unnamed")
    },
    "a finding that passed": Situation(
        {'pglock_findings|rule="waiting-long", severity="warning"': "1x10 0x9"}, {}
    ),
    "an exporter that is down": Situation(
        {'up{job="pglock-inspect", instance="localhost:10187"}': "0x20"},
        {"PglockExporterDown": 'severity="critical"'},
    ),
    "a server that is down": Situation(
        {"pglock_up": "0x20", "pglock_last_poll_timestamp_seconds": "0x20"},
        {"PglockPollFailing": 'severity="critical"'},
    ),
    "polling that has stopped": Situation(
        {"pglock_last_poll_timestamp_seconds": "0x20"}, {"PglockReportTooOld": 'severity="warning"'}
    ),
}


def full(series: str) -> str:
    name, _, labels = series.partition("|")
    return name if "{" in name else name + SCRAPED % (f", {labels}" if labels else "")


def promtool_test(directory: Path, tests: list[dict[str, object]]) -> subprocess.CompletedProcess[str]:
    with as_file(files("pglock_inspect") / "data" / "alerts.yml") as rules:
        plan = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}
        (directory / "test.yml").write_text(json.dumps(plan))
        command = [program("promtool"), "test", "rules", str(directory / "test.yml")]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def evaluated(series: dict[str, str], **test: object) -> dict[str, object]:
    samples = {**QUIET, **series}
    return {
        "interval": "1m",
        "input_series": [
            {"series": full(name), "values": values} for name, values in samples.items() if values
        ],
        **test,
    }


def firing(alert: str, labels: str) -> str:
    target = "" if alert == "PglockExporterDown" else ', target="prod"'
    scraped = f'job="pglock-inspect", instance="localhost:10187"{target}'
    return f'ALERTS{{alertname="{alert}", alertstate="firing", {scraped}, {labels}}}'


@pytest.mark.parametrize("name", SITUATIONS)
def test_what_fires(name: str, tmp_path: Path) -> None:
    series, fires = SITUATIONS[name]
    expected = [{"labels": firing(alert, labels), "value": 1} for alert, labels in fires.items()]
    query = {"expr": 'ALERTS{alertstate="firing"}', "eval_time": "20m", "exp_samples": expected}
    result = promtool_test(tmp_path, [evaluated(series, promql_expr_test=[query])])
    assert result.returncode == 0, result.stdout + result.stderr


def test_each_alert_is_made_to_fire() -> None:
    text = (files("pglock_inspect") / "data" / "alerts.yml").read_text()
    alerts = {line.partition("alert: ")[2] for line in text.splitlines() if "- alert: " in line}
    assert alerts == {alert for situation in SITUATIONS.values() for alert in situation.fires}


def test_without_any_exporter(tmp_path: Path) -> None:
    query = {
        "expr": 'ALERTS{alertstate="firing"}',
        "eval_time": "20m",
        "exp_samples": [
            {
                "labels": 'ALERTS{alertname="PglockExporterDown", alertstate="firing", severity="critical"}',
                "value": 1,
            }
        ],
    }
    result = promtool_test(tmp_path, [{"interval": "1m", "input_series": [], "promql_expr_test": [query]}])
    assert result.returncode == 0, result.stdout + result.stderr


def test_what_an_alert_says(tmp_path: Path) -> None:
    alert = {
        "eval_time": "20m",
        "alertname": "PglockJobStale",
        "exp_alerts": [
            {
                "exp_labels": {
                    "severity": "critical",
                    "job": "pglock-inspect",
                    "instance": "localhost:10187",
                    "target": "prod",
                    "database": "app",
                    "name": "digest",
                },
                "exp_annotations": {
                    "summary": "Job digest has held its lock on prod for 20m 0s.",
                    "description": "That is longer than it may. It hangs, or its session was left behind;"
                    " the next runs wait or are skipped. Ask `pglock-inspect why digest`.",
                    "runbook": "docs/findings.md#stale",
                },
            }
        ],
    }
    series = SITUATIONS["a stale job"].series
    result = promtool_test(tmp_path, [evaluated(series, alert_rule_test=[alert])])
    assert result.returncode == 0, result.stdout + result.stderr

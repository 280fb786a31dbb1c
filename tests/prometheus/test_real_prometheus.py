"""A real Prometheus scrapes a real exporter of a real server, and tells a real Alertmanager."""

from __future__ import annotations

import json
import math
import re
import time
from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.stack import DASHBOARDS, Stack, running_stack
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.support.servers import Connection

pytestmark = pytest.mark.requires("prometheus", "alertmanager")

LOCK = "SELECT pg_advisory_lock(hashtext('{}'))"
UNLOCK = "SELECT pg_advisory_unlock(hashtext('{}'))"
REPORT = '{target="main", name="nightly_report"}'

ALL = {"target": ".*", "database": ".*", "job": ".*"}
CHOSEN = {"target": "main", "database": "app", "job": "nightly_report"}
SPANS = {"__rate_interval": "20s", "__interval": "2s", "__range": "60s"}


def test_from_locks_to_those_who_are_told(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """One test, since its steps share what takes long to start."""
    with running_stack(tmp_path) as stack:
        for step in (
            every_panel_has_something_to_show,
            an_alert_fires_while_a_job_is_stale,
            one_cause_is_told_once,
            a_server_that_cannot_be_read_is_told,
            no_label_is_renamed,
            an_exporter_that_ends_is_told,
        ):
            with subtests.test(step.__name__):
                step(stack)


def filled(text: str, choices: Mapping[str, str]) -> str:
    """Put in what Grafana would: its spans, and what is chosen in the variables."""
    return re.sub(r"\$(\w+)", lambda match: {**SPANS, **choices}[match[1]], text)


def numbers(result: list[dict[str, Any]]) -> list[float]:
    """Return all numbers of a query's result that a panel can show."""
    values = [value for series in result for _, value in series.get("values", [series.get("value")])]
    return [number for number in map(float, values) if not math.isnan(number)]


def shown(stack: Stack, panel: dict[str, Any], choices: Mapping[str, str]) -> list[list[float]]:
    """Return what each query of a panel finds."""
    now = time.time()
    found = []
    for query in panel.get("targets", []):  # a row has none
        expr = filled(query["expr"], choices)
        if query.get("instant"):
            found.append(numbers(stack.prometheus.query(expr)))
        else:
            found.append(numbers(stack.prometheus.graph(expr, start=now - 60, end=now, step=2)))
    return found


def every_panel_has_something_to_show(stack: Stack) -> None:
    with closing(stack.open_session("worker")) as session, closing(stack.open_session("waiter")) as waiter:
        hold_and_wait(stack, session, waiter)
        empty = []
        for file in ("overview.json", "job.json"):
            document = json.loads((DASHBOARDS / file).read_text())
            ways = [ALL, CHOSEN] if file == "overview.json" else [CHOSEN, {**CHOSEN, "database": ".*"}]
            for panel, choices in product(document["panels"], ways):
                results = shown(stack, panel, choices)
                if not all(results):
                    empty.append(f"{file}, {panel['title']}, {choices}: {results}")
                if panel["type"] == "stat" and choices == ways[0]:
                    assert max(results[0]) > 0, panel["title"]
            for annotation in document["annotations"]["list"]:
                assert stack.prometheus.query(filled(annotation["expr"], CHOSEN))
            for variable in document["templating"]["list"][1:]:
                ((match, label),) = re.findall(r"^label_values\((.*), (\w+)\)$", variable["definition"])
                values = stack.prometheus.values_of(label, filled(match, ways[0]))
                assert CHOSEN[variable["name"]] in values
        assert not empty, "\n".join(empty)


def hold_and_wait(stack: Stack, session: Connection, waiter: Connection) -> None:
    """Have a job run twice, then become stale while somebody waits for it."""
    for _ in range(2):  # an increase is measured from the first on
        session.execute(LOCK.format("nightly_report"))
        stack.wait_for(f"pglock_job_held{REPORT} == 1")
        session.execute(UNLOCK.format("nightly_report"))
        stack.wait_for(f"sum without (database) (pglock_job_held{REPORT}) == 0")
    session.execute(LOCK.format("nightly_report"))
    waiter.pgconn.send_query(LOCK.format("nightly_report").encode())
    for expr in (
        f"pglock_job_stale{REPORT} == 1",
        f"pglock_job_waiters{REPORT} == 1",
        f"increase(pglock_job_observed_hold_seconds_count{REPORT}[20s]) > 0",
        'pglock_findings{rule="never-seen"} == 1',
        'increase(pglock_poll_failures_total{target="gone"}[20s]) > 0',
        'ALERTS{alertname="PglockJobStale", alertstate="firing"}',
    ):
        stack.wait_for(expr)


def an_alert_fires_while_a_job_is_stale(stack: Stack) -> None:
    def told() -> list[dict[str, Any]]:
        return [each for each in stack.alertmanager.alerts() if each["labels"].get("name") == "close_books"]

    with closing(stack.open_session("worker")) as session:
        session.execute(LOCK.format("close_books"))
        stack.wait_for('ALERTS{alertname="PglockJobStale", name="close_books", alertstate="firing"}')
        (alert,) = wait_until(told, "Alertmanager is told", timeout=60)
        assert alert["labels"] == {
            "alertname": "PglockJobStale",
            "severity": "critical",
            "job": "pglock-inspect",
            "instance": "main",
            "target": "main",
            "database": "app",
            "name": "close_books",
        }
        assert re.fullmatch(
            r"Job close_books has held its lock on main for [\dms. ]+, longer than it may",
            alert["annotations"]["summary"],
        )
        session.execute(UNLOCK.format("close_books"))
        wait_until(lambda: not told(), "Alertmanager is told that it is over", timeout=60)
        assert not stack.prometheus.query('ALERTS{name="close_books"}')


def one_cause_is_told_once(stack: Stack) -> None:
    def alerts(name: str) -> list[dict[str, Any]]:
        return [each for each in stack.alertmanager.alerts() if each["labels"]["alertname"] == name]

    stale, *_ = wait_until(lambda: alerts("PglockJobStale"), "the job of the demo is stale", timeout=60)
    wait_until(lambda: alerts("PglockWaitingLong"), "others wait for it", timeout=60)
    assert stale["status"]["state"] != "suppressed"
    wait_until(lambda: alerts("PglockWaitingLong")[0]["status"]["inhibitedBy"], "it is held back", timeout=60)


def a_server_that_cannot_be_read_is_told(stack: Stack) -> None:
    def said() -> list[str]:
        return [
            alert["annotations"]["description"]
            for alert in stack.prometheus.alerts()
            if alert["labels"]["alertname"] == "PglockPollFailing" and alert["state"] == "firing"
        ]

    wait_until(lambda: "The reason is connect." in " ".join(said()), "it is told, and why", timeout=60)


def no_label_is_renamed(stack: Stack) -> None:
    labels = stack.prometheus.get("labels")["data"]
    assert "name" in labels
    assert not [label for label in labels if label.startswith("exported_")]


def an_exporter_that_ends_is_told(stack: Stack) -> None:
    stack.exporter.terminate()
    stack.wait_for('ALERTS{alertname="PglockExporterDown", instance="main", alertstate="firing"}')
    others = 'ALERTS{alertname!="PglockExporterDown", alertstate="firing"}'
    wait_until(lambda: not stack.prometheus.query(others), "no other alert fires", timeout=30)

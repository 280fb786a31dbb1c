"""A server with every kind of trouble, the exporter, Prometheus with the alert rules, and Alertmanager."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
import yaml

from pglock_inspect.demo.server import TemporaryServer
from pglock_inspect.demo.workload import CONFIGURATION, Workload
from tests.support.command import COMMAND, environment
from tests.support.pages import snippets
from tests.support.prometheus import Alertmanager, Prometheus, alertmanager, prometheus
from tests.support.servers import SETTINGS, Connection, bindir
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

DASHBOARDS = Path(__file__).parents[2] / "dashboards"

_MORE_JOBS = """
[[jobs]]
name = "nightly_report"
max_held = "1s"
every = "1h"
min_held = "10s"

[[jobs]]
name = "nightly_backup"   # never runs
every = "2s"
min_held = "10s"

[[jobs]]
name = "close_books"
max_held = "1s"
"""
_AFTER = re.compile(r"\bfor: \d+m$", re.MULTILINE)
_LISTENS = re.compile(r"listening on http://(\S+)")


class Stack(NamedTuple):
    """What runs; `dsn` is of the server, which the exporter calls `main`. Its target `gone` is not there."""

    dsn: str
    exporter: subprocess.Popen[bytes]
    prometheus: Prometheus
    alertmanager: Alertmanager

    def open_session(self, name: str) -> Connection:
        return psycopg.connect(self.dsn, application_name=name, autocommit=True)

    def wait_for(self, expr: str) -> None:
        """Wait until a query has a result."""
        wait_until(lambda: self.prometheus.query(expr), expr, timeout=60)


@contextmanager
def running_stack(directory: Path) -> Iterator[Stack]:
    """Run it all; what it writes is below `directory`."""
    with ExitStack() as running:
        server = running.enter_context(TemporaryServer(bindir=bindir(), settings=SETTINGS))
        dsn = running.enter_context(Workload(server)).dsn()
        targets = {"main": dsn, "gone": "host=127.0.0.1 port=1"}
        configuration = directory / "pglock-inspect.toml"
        configuration.write_text(
            CONFIGURATION.read_text()
            + _MORE_JOBS
            + "".join(
                f"\n[[targets]]\nname = {json.dumps(name)}\ndsn = {json.dumps(where)}\n"
                for name, where in targets.items()
            )
        )
        process, address = running.enter_context(_exporter(directory, configuration))
        told = running.enter_context(alertmanager(directory, DASHBOARDS / "alertmanager.yml"))
        rules = directory / "alerts.yml"
        rules.write_text(_AFTER.sub("for: 1s", (DASHBOARDS / "alerts.yml").read_text()))
        asked = running.enter_context(
            prometheus(directory, rules=rules, scrape=_probes(address, [*targets]), alertmanager=told.address)
        )
        yield Stack(dsn, process, asked, told)


def _probes(exporter: str, targets: list[str]) -> list[dict[str, Any]]:
    """Return how the documentation scrapes each target by itself, here."""
    (probes,) = [text for text in snippets("prometheus.md", "yaml") if "/probe" in text]
    jobs: list[dict[str, Any]] = yaml.safe_load(probes)["scrape_configs"]
    for job in jobs:
        job["static_configs"] = [{"targets": targets}]
        job["relabel_configs"][-1]["replacement"] = exporter
    return jobs


@contextmanager
def _exporter(directory: Path, configuration: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Run the command; yields it and its address."""
    leash = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    arguments = ["serve", "--config", str(configuration), "--listen", "127.0.0.1:0", "--interval", "500ms"]
    log = directory / "exporter.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*leash, *COMMAND, *arguments], stderr=output, cwd=directory, env=environment(directory)
        )
    try:
        (address,) = wait_until(lambda: _LISTENS.findall(log.read_text()), "it listens", timeout=30)
        yield process, address
    finally:
        process.terminate()
        process.wait()

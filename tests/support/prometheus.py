"""A Prometheus and an Alertmanager of the test's own on loopback."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from urllib.request import urlopen

import psutil
import yaml

from tests.support.requirements import program
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

ANY_PORT = "127.0.0.1:0"

Series = dict[str, Any]
"""`metric`, its labels, and `value` or `values`: pairs of a time and a number as text."""


class Api:
    """The HTTP interface of a program, at `address` (host:port)."""

    def __init__(self, address: str, path: str) -> None:
        self.address = address
        self._base = f"http://{address}{path}"

    def get(self, path: str, **parameters: str | float) -> Any:  # noqa: ANN401
        with urlopen(f"{self._base}/{path}?{urlencode(parameters)}", timeout=30) as answer:
            return json.load(answer)


class Prometheus(Api):
    """What it is asked by Grafana."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "/api/v1")

    def query(self, expr: str) -> list[Series]:
        result: list[Series] = self.get("query", query=expr)["data"]["result"]
        return result

    def graph(self, expr: str, *, start: float, end: float, step: float) -> list[Series]:
        answer = self.get("query_range", query=expr, start=start, end=end, step=step)
        result: list[Series] = answer["data"]["result"]
        return result

    def values_of(self, label: str, match: str) -> list[str]:
        values: list[str] = self.get(f"label/{label}/values", **{"match[]": match})["data"]
        return values

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that are pending or fire."""
        alerts: list[dict[str, Any]] = self.get("alerts")["data"]["alerts"]
        return alerts


class Alertmanager(Api):
    """What it shows to a person."""

    def __init__(self, address: str) -> None:
        super().__init__(address, "/api/v2")

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that it has been told of and that have not been resolved."""
        alerts: list[dict[str, Any]] = self.get("alerts")
        return alerts


@contextmanager
def alertmanager(directory: Path, configuration: Path) -> Iterator[Alertmanager]:
    """Start one; what it keeps is below `directory`."""
    arguments = [f"--config.file={configuration}", f"--storage.path={directory / 'alerts'}"]
    with _listening("alertmanager", directory, *arguments, "--cluster.listen-address=") as address:
        yield Alertmanager(address)


@contextmanager
def prometheus(
    directory: Path,
    *,
    rules: Path,
    scrape: Sequence[Mapping[str, object]],
    alertmanager: str,
    every: str = "1s",
) -> Iterator[Prometheus]:
    """Start one that scrapes and evaluates `every` so often; what it keeps is below `directory`."""
    configuration = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": [str(rules)],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": scrape,
    }
    file = directory / "prometheus.yml"
    file.write_text(yaml.safe_dump(configuration))
    arguments = [f"--config.file={file}", f"--storage.tsdb.path={directory / 'series'}"]
    with _listening("prometheus", directory, *arguments, "--rules.alert.resend-delay=1s") as address:
        yield Prometheus(address)


@contextmanager
def _listening(name: str, directory: Path, *arguments: str) -> Iterator[str]:
    """Run a program on a free port until the end of the block; yields its address."""
    leash = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
    log = directory / f"{name}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [*leash, program(name), *arguments, f"--web.listen-address={ANY_PORT}"],
            stdout=output,
            stderr=output,
        )
    try:
        port = wait_until(lambda: _port(process, log), f"{name} listens", timeout=30)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int | None:
    assert process.poll() is None, log.read_text()
    with suppress(psutil.NoSuchProcess):
        for connection in psutil.Process(process.pid).net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN:
                port: int = connection.laddr.port
                return port
    return None

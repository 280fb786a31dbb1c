"""Exporters as processes: ours, and Debian's ``prometheus-postgres-exporter``."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from psycopg.conninfo import conninfo_to_dict

from benchmarks.harness import process_cpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pglock_inspect.model import Job

_PACKAGE = "prometheus-postgres-exporter"
_ONE_QUERY = {
    "pg_advisory_locks": {
        "query": "SELECT granted, count(*) FROM pg_locks WHERE locktype = 'advisory' GROUP BY granted",
        "metrics": [
            {"granted": {"usage": "LABEL", "description": "Whether it is held."}},
            {"count": {"usage": "GAUGE", "description": "The number of advisory locks."}},
        ],
    }
}
_NOTHING_ELSE = (
    "--disable-default-metrics",
    "--disable-settings-metrics",
    "--no-collector.database",
    "--no-collector.bgwriter",
)
# As Prometheus asks, on a connection that stays.
_HEADERS = {
    "Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
    "Accept-Encoding": "gzip",
}


class Exporter:
    """A context manager: an exporter that runs, and is scraped."""

    def __init__(self, command: Sequence[str], port: int, environment: dict[str, str]) -> None:
        self._command = command
        self._environment = environment
        self._port = port

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, env=own_environment() | self._environment, stderr=subprocess.DEVNULL
        )
        while True:
            assert self._process.poll() is None, f"{self._command} ended"
            try:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
                self._connection.connect()
            except ConnectionRefusedError:
                time.sleep(0.05)
            else:
                return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._process.terminate()
        self._process.wait(10)

    def scrape(self) -> float:
        """Return the seconds that it took."""
        began = time.perf_counter()
        self._connection.request("GET", "/metrics", headers=_HEADERS)
        answer = self._connection.getresponse()
        self._body = answer.read()
        seconds = time.perf_counter() - began
        assert answer.status == 200, self._body
        return seconds

    def total(self, metric: str) -> float:
        """Return the sum of a metric's series; a metric is the beginning of a line."""
        self.scrape()
        lines = gzip.decompress(self._body).decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(metric))

    def cpu(self) -> float:
        """Return the seconds of CPU that it has used."""
        return process_cpu(self._process.pid)


def ours(directory: Path, interval: float, targets: Mapping[str, str], jobs: Iterable[Job]) -> Exporter:
    """Return the exporter, with a configuration in a directory."""
    config = directory / "exporter.toml"
    lines = [
        f"[[targets]]\nname = {json.dumps(name)}\ndsn = {json.dumps(dsn)}" for name, dsn in targets.items()
    ]
    lines += [f"[[jobs]]\nname = {json.dumps(job.name)}" for job in jobs]
    config.write_text("\n".join(lines), "utf-8")
    port = _free_port()
    command = [str(Path(sys.executable).with_name("pglock-inspect")), "serve", "--config", str(config)]
    return Exporter([*command, "--interval", f"{interval}s", "--listen", f"127.0.0.1:{port}"], port, {})


class Debians:
    """A context manager: the program of the package, fetched with apt-get unless it is installed."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            self._program = shutil.which(_PACKAGE) or self._fetch()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def as_installed(self, dsn: str) -> Exporter:
        return self._exporter(dsn, "as-installed")

    def one_query(self, dsn: str) -> Exporter:
        """Return it with one query of advisory locks, and nothing else."""
        queries = self.directory / "queries.yaml"
        queries.write_text(json.dumps(_ONE_QUERY), "utf-8")
        return self._exporter(dsn, "one-query", *_NOTHING_ELSE, f"--extend.query-path={queries}")

    def _exporter(self, dsn: str, name: str, *options: str) -> Exporter:
        port = _free_port()
        server = "postgresql://{user}@{host}:{port}/{dbname}".format_map(conninfo_to_dict(dsn))
        source = f"{server}?sslmode=disable&application_name={name}"
        command = [self._program, f"--web.listen-address=127.0.0.1:{port}", *options]
        return Exporter(command, port, {"DATA_SOURCE_NAME": source})

    def _fetch(self) -> str:
        for command in (["apt-get", "download", _PACKAGE], ["sh", "-c", "dpkg -x *.deb ."]):
            subprocess.run(command, cwd=self.directory, check=True, capture_output=True)
        return str(self.directory / "usr/bin" / _PACKAGE)


def own_environment() -> dict[str, str]:
    """Return what programs are started with: no connection but the one they are given, and compiled once."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "DATABASE_", "PYTHONDONTWRITEBYTECODE"))
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""The exporter as a process, and requests to it."""

from __future__ import annotations

import base64
import http.client
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlsplit

from tests.support.fleets import Sample, read_samples
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.command import Pglock

_LISTENING = "listening on "


class Answer(NamedTuple):
    """What came back; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Ended(NamedTuple):
    """How the process ended; ``seconds`` is from the signal to the end."""

    code: int
    said: str
    seconds: float


class Exporter:
    """A running `pglock-inspect serve` on a free port."""

    def __init__(self, pglock: Pglock, *arguments: str, **variables: str) -> None:
        options = () if "--listen" in arguments else ("--listen", "127.0.0.1:0")
        self._process = pglock.start("serve", *options, *arguments, **variables)
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.tls: ssl.SSLContext | None = None
        try:
            wait_until(lambda: self._url or self._process.poll() is not None, "it listens", timeout=60)
            assert self._url, self.said
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop(signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def said(self) -> str:
        """What there is on stderr so far."""
        return "".join(self._lines)

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self._url)
        assert parts.hostname
        assert parts.port
        return parts.hostname, parts.port

    @property
    def url(self) -> str:
        return self._url

    @property
    def _url(self) -> str:
        return next((line.partition(_LISTENING)[2].strip() for line in self._lines if _LISTENING in line), "")

    def get(
        self, path: str, *, method: str = "GET", user: tuple[str, str] | None = None, **headers: str
    ) -> Answer:
        """Answer of a new connection; an underscore in the name of a header is a hyphen."""
        with self.connected() as connection:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if user:
                sent["Authorization"] = "Basic " + base64.b64encode(":".join(user).encode()).decode()
            connection.request(method, path, headers=sent)
            answer = connection.getresponse()
            return Answer(
                answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
            )

    @contextmanager
    def connected(self) -> Iterator[http.client.HTTPConnection]:
        host, port = self.address
        connection = (
            http.client.HTTPSConnection(host, port, timeout=60, context=self.tls)
            if self.tls
            else http.client.HTTPConnection(host, port, timeout=60)
        )
        try:
            yield connection
        finally:
            connection.close()

    def raw(self) -> socket.socket:
        """A connection that says nothing yet."""
        return socket.create_connection(self.address, timeout=60)

    def samples(self, path: str = "/metrics") -> dict[Sample, float]:
        answer = self.get(path)
        assert answer.status == 200, answer
        return read_samples(answer.text)

    def values(self, metric: str, path: str = "/metrics") -> dict[str, float]:
        """The values of a metric by target."""
        return {
            dict(sample.labels)["target"]: value
            for sample, value in self.samples(path).items()
            if sample.name == metric
        }

    def await_up(self, number: int = 1) -> None:
        """Wait until so many targets are read."""
        wait_until(lambda: sum(self.values("pglock_up").values()) == number, f"{number} are up", timeout=60)

    def stop(self, signum: signal.Signals = signal.SIGTERM) -> Ended:
        """End it, or wait for its end."""
        began = time.monotonic()
        if self._process.poll() is None:
            self._process.send_signal(signum)
        try:
            code = self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        seconds = time.monotonic() - began
        self._reader.join()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream
            stream.close()
        return Ended(code, self.said, seconds)

    def _read(self) -> None:
        assert self._process.stderr
        for line in self._process.stderr:
            self._lines.append(line)


def write_config(directory: Path, text: str) -> str:
    """The path of a configuration."""
    path = directory / "own.toml"
    path.write_text(text)
    return str(path)

"""What the image asks to learn whether its exporter is well."""

from __future__ import annotations

import http.server
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from pglock_inspect.serve.health import answers, listening

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")


class Site(http.server.BaseHTTPRequestHandler):
    """Answers as the server is told to."""

    def do_GET(self) -> None:
        known = self.path == "/healthz"
        self.send_response(self.server.status if known else 404)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def site(status: int) -> Iterator[tuple[str, int]]:
    with http.server.HTTPServer(("127.0.0.1", 0), Site) as server:
        server.status = status  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield "127.0.0.1", server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0"])
def test_where_a_process_listens(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port)):  # whose own address is not one
            found = [address for address in listening() if port in address]
        assert found == [(host, port)]
    assert (host, port) not in listening()


def test_well_if_it_says_so() -> None:
    with site(200) as address:
        assert answers(*address)
    assert not answers(*address)


@pytest.mark.parametrize("status", [404, 500, 503])
def test_ill_if_it_says_anything_else(status: int) -> None:
    with site(status) as address:
        assert not answers(*address)


def test_ill_if_it_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pglock_inspect.serve.health._PATIENCE", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not answers(*server.getsockname())


def test_asking_loads_little() -> None:
    """A container asks four times a minute."""
    loaded = "import sys, pglock_inspect.serve.health as _; print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", loaded], text=True).split()
    assert not {"psycopg", "starlette", "uvicorn", "typer"} & {*modules}

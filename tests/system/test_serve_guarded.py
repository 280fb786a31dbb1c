"""An exporter that is reached by others: TLS, passwords, names of the host, and clients that behave badly."""

from __future__ import annotations

import resource
import socket
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING

import bcrypt
import pytest

from tests.support.certificates import make_certificate
from tests.support.exporter import Exporter, write_config
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.command import Pglock

USER = ("prometheus", "correct horse: battery")
NOBODY = "host=127.0.0.1 port=1"
OVER_HEADERS = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000


def hashed(password: str, cost: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


@pytest.fixture
def exporter(stray: Pglock) -> Iterator[Exporter]:
    with Exporter(stray, "--dsn", NOBODY) as exporter:
        yield exporter


@pytest.fixture
def locked(stray: Pglock, tmp_path: Path) -> Iterator[Exporter]:
    users = f'[serve.users]\n{USER[0]} = "{hashed(USER[1])}"\nslow = "{hashed("slow", 8)}"\n'
    with Exporter(stray, "--config", write_config(tmp_path, users), "--dsn", NOBODY) as exporter:
        yield exporter


def test_nobody_gets_in_without_a_password(locked: Exporter) -> None:
    for path in ("/", "/metrics", "/probe?target=x", "/api/v1/report", "/assets/style.css", "/nothing"):
        answer = locked.get(path)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == 'Basic realm="pglock-inspect"'
        assert locked.get(path, user=USER).status != 401
    assert locked.get("/healthz").status == 200
    assert locked.get("/readyz").status == 503


@pytest.mark.parametrize(
    "user",
    [
        ("prometheus", ""),
        ("prometheus", "correct horse: batter"),
        ("prometheus", "slow"),
        ("slow", USER[1]),
        ("nobody", USER[1]),
        ("", ""),
        ("prometheus", "x" * 73),
        ("prometheus", "correct horse: battery\0"),
        ("promethéus", "ü"),
    ],
)
def test_a_wrong_password(locked: Exporter, user: tuple[str, str]) -> None:
    assert locked.get("/metrics", user=user).status == 401
    assert locked.get("/metrics", user=USER).status == 200
    assert locked.get("/metrics", user=user).status == 401


@pytest.mark.parametrize("header", ["Basic", "Basic !!!", "Basic eHg=", "Bearer eHg6eHg=", "basic"])
def test_what_is_no_basic_authentication(locked: Exporter, header: str) -> None:
    assert locked.get("/metrics", authorization=header).status == 401


def test_only_the_owner_of_the_key_is_believed(stray: Pglock, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "exporter")
    users = f'[serve]\ntls_cert = "exporter.pem"\n[serve.users]\n{USER[0]} = "{hashed(USER[1])}"\n'
    with Exporter(stray, "--config", write_config(tmp_path, users), "--dsn", NOBODY) as exporter:
        assert exporter.url.startswith("https://127.0.0.1:")
        exporter.tls = trusting(certificate)
        assert exporter.get("/metrics", user=USER).status == 200
        exporter.tls = None
        with exporter.raw() as plain:
            plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert b"pglock" not in plain.recv(1 << 16)
        exporter.tls = trusting(certificate)
        assert exporter.get("/healthz").status == 200
        assert "Traceback" not in exporter.stop().said


def test_certificate_and_key_must_belong_together(stray: Pglock, tmp_path: Path) -> None:
    one, other = (str(make_certificate(tmp_path, name)) for name in ("one", "other"))
    done = stray("serve", "--tls-cert", f"{one}.crt", "--tls-key", other, code=3)
    assert done.stderr.startswith(
        f"pglock-inspect: {one}.crt and {other} are no certificate with its key in PEM"
    )
    stray("serve", "--tls-cert", f"{one}.crt", code=3)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:10187", 200),
        ("[::1]:10187", 200),
        ("evil.example", 421),
        ("localhost.evil.example:10187", 421),
        ("10.0.0.1", 421),
        ("localhost@evil.example", 421),
    ],
)
def test_a_page_of_a_browser_does_not_get_in_by_a_name_of_its_own(
    exporter: Exporter, host: str, status: int
) -> None:
    assert exporter.get("/metrics", Host=host).status == status


def test_an_open_address_takes_any_name_and_says_that_it_is_open(stray: Pglock, tmp_path: Path) -> None:
    with Exporter(stray, "--dsn", NOBODY, "--listen", "0.0.0.0:0") as exporter:
        assert exporter.get("/metrics", Host="exporter.example").status == 200
        assert "whoever reaches 0.0.0.0:0 may ask: set a password under [serve.users]" in exporter.said
    config = write_config(tmp_path, f'[serve]\nlisten = "0.0.0.0:0"\nusers = {{me = "{hashed("x")}"}}\n')
    with Exporter(stray, "--dsn", NOBODY, "--config", config, "--listen", "0.0.0.0:0") as exporter:
        assert "passwords go to 0.0.0.0:0 in the clear: give --tls-cert" in exporter.said


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /\x00 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"400"),
        (OVER_HEADERS, b"400"),
        (b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\nx", b"405"),
        (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n", b"400"),
        (b"GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", b"404"),
    ],
    ids=range(8),
)
def test_bad_requests(exporter: Exporter, sent: bytes, status: bytes) -> None:
    with exporter.raw() as client:
        client.sendall(sent)
        assert client.recv(12) == b"HTTP/1.1 " + status
    assert exporter.get("/healthz").status == 200
    assert "Traceback" not in exporter.stop().said


def test_who_ends_a_request_with_nonsense_is_not_told_of(exporter: Exporter) -> None:
    with exporter.raw() as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n")
        assert client.recv(10) == b"HTTP/1.1 4"
    assert exporter.get("/healthz").status == 200
    assert "/ failed" not in exporter.stop().said


def test_more_connections_than_files_may_be_open_is_told_once(exporter: Exporter) -> None:
    opened = len([*Path(f"/proc/{exporter.pid}/fd").iterdir()])
    resource.prlimit(exporter.pid, resource.RLIMIT_NOFILE, (opened + 10, opened + 10))
    clients = [exporter.raw() for _ in range(30)]
    try:
        wait_until(lambda: "more connections than files" in exporter.said, "it says so", timeout=60)
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: exporter.get("/healthz").status == 200, "it takes connections again", timeout=60)
    said = exporter.stop().said
    assert said.count("more connections than files") == 1
    assert "unforeseen" not in said


def test_it_may_open_more_files_than_a_process_may_at_first(stray: Pglock) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        with Exporter(stray, "--dsn", NOBODY) as exporter:
            wait_until(lambda: exporter.get("/healthz").status == 200, "it answers", timeout=60)
            assert resource.prlimit(exporter.pid, resource.RLIMIT_NOFILE)[0] >= 1024
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_who_never_ends_a_request_is_cut_off(exporter: Exporter) -> None:
    with exporter.raw() as silent, exporter.raw() as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\n")
        slow.settimeout(0.2)
        began = time.monotonic()
        while not is_closed(slow):
            assert time.monotonic() < began + 60
            try:
                slow.sendall(b"X: x\r\n")
            except OSError:
                break
        assert silent.recv(1) == b""
    assert exporter.get("/metrics").status == 200


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_the_last_of_too_many_connections_are_told_so(exporter: Exporter) -> None:
    clients = [exporter.raw() for _ in range(520)]
    try:
        wait_until(lambda: exporter.get("/metrics").status == 503, "there are too many", timeout=60)
    finally:
        for client in clients:
            client.close()
    wait_until(lambda: exporter.get("/metrics").status == 200, "they are gone", timeout=60)


def test_who_does_not_read_holds_nobody_up(exporter: Exporter) -> None:
    with exporter.raw() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2_000)
        for _ in range(20):
            assert exporter.get("/metrics").status == 200
        assert exporter.stop().code == 0

"""Whatever is sent to the exporter, it answers or hangs up, and goes on."""

from __future__ import annotations

import json
import re
import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote

import psutil
import pytest
from hypothesis import given, strategies as st

from tests.support.command import Pglock
from tests.support.exporter import Exporter, write_config
from tests.support.fuzzing import fuzzed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Server

_PATIENCE = 30.0  # for what takes milliseconds
_LARGEST = 400_000_000

PATHS = ["/", "/metrics", "/probe", "/api/v1/report", "/healthz", "/readyz", "/assets/style.css"]
BYTES = st.binary(max_size=200)
VISIBLE = st.text(st.characters(codec="latin-1", exclude_categories=["Cc"]), max_size=40)
QUERIES = st.lists(
    st.builds(
        "{}={}".format,
        st.sampled_from(["target", "target", "TARGET", "x", ""]),
        st.one_of(
            st.sampled_from(["one", "dead", "t%77o", "%00", "%FF", "%", "a" * 5_000, "one&target=dead"]),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=9).map(quote),
        ),
    ),
    max_size=3,
).map("&".join)
TARGETS = st.builds(
    "{}{}?{}".format,
    st.sampled_from([*PATHS, "*", "//", "http://evil.example/metrics", "/../metrics", "/assets/"]),
    st.sampled_from(["", "", "", "/", "/..%2f..", "%00", ";x", "\x80"]),
    QUERIES,
)
METHODS = st.sampled_from(["GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "CONNECT", "PRI", "G\x01T", ""])
HEADERS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(
                [
                    *("Accept", "Accept-Encoding", "Authorization", "Host", "Connection", "Upgrade"),
                    *("Content-Length", "Transfer-Encoding", "Expect", "Range", "X" * 9_000),
                ]
            ),
            st.one_of(
                st.sampled_from(
                    [
                        *("gzip;q=0.0", "gzip, *;q=x", "chunked", "close", "keep-alive", "websocket", "h2c"),
                        *("localhost", "evil.example", "[::1]:80", "0", "-1", "9" * 30, "100-continue"),
                        *("application/openmetrics-text;version=1.0.0", "Basic " + "A" * 99, ";;=,,", ""),
                    ]
                ),
                VISIBLE,
            ),
        ).map(": ".join),
        VISIBLE,
    ),
    max_size=6,
)
REQUESTS = st.builds(
    lambda method, target, version, headers, end, body: (
        "\r\n".join([f"{method} {target} {version}", *headers, ""]).encode("latin-1") + end + body
    ),
    METHODS,
    TARGETS,
    st.sampled_from(["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "http/1.1", ""]),
    HEADERS,
    st.sampled_from([b"\r\n", b"\r\n", b"\n", b""]),
    BYTES,
)
SENT = st.one_of(
    REQUESTS,
    st.lists(REQUESTS, min_size=2, max_size=4).map(b"".join),  # one behind the other
    BYTES,
    st.builds(lambda piece, times: piece * times, st.binary(min_size=1, max_size=9), st.integers(1, 3_000)),
    st.binary(max_size=40).map(lambda noise: b"\x16\x03\x01\x02\x00\x01" + noise),  # as TLS begins
)
ANSWER = re.compile(rb"HTTP/1\.1 ([1-5]\d\d) ")


@pytest.fixture(scope="module")
def exporter(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exporter]:
    directory = tmp_path_factory.mktemp("exporter")
    tables = (
        f"[[targets]]\nname = {json.dumps(name)}\ndsn = {json.dumps(dsn)}\n"
        for name, dsn in (("one", server.dsn()), ("two", server.dsn()), ("dead", "host=127.0.0.1 port=1"))
    )
    with Exporter(Pglock(directory), "--config", write_config(directory, "".join(tables))) as exporter:
        exporter.await_up(2)
        yield exporter


def answer(exporter: Exporter, sent: bytes, *, hang_up: bool = False) -> bytes:
    """What comes back until the exporter hangs up."""
    came = b""
    with socket.create_connection(exporter.address, timeout=_PATIENCE) as client, suppress(ConnectionError):
        client.sendall(sent)
        if hang_up:
            client.shutdown(socket.SHUT_WR)
        while more := client.recv(1 << 16):
            came += more
    return came


@fuzzed
@given(sent=SENT)
def test_whatever_is_sent_is_answered_or_hung_up_on(exporter: Exporter, sent: bytes) -> None:
    came = answer(exporter, sent, hang_up=True)
    if came:
        status = ANSWER.match(came)
        assert status, came[:100]
        assert status[1] not in {b"500", b"502", b"504"}
    assert "Traceback" not in exporter.said
    assert "unforeseen" not in exporter.said
    assert exporter.get("/healthz").status == 200
    assert psutil.Process(exporter.pid).memory_info().rss < _LARGEST


@fuzzed
@given(path=TARGETS.filter(lambda target: target.startswith("/") and target.isascii()), headers=HEADERS)
def test_a_request_gets_the_answer_that_its_path_asks_for(
    exporter: Exporter, path: str, headers: list[str]
) -> None:
    harmless = [line for line in headers if line.startswith(("Accept", "Range", "Authorization"))]
    lines = [f"GET {path} HTTP/1.1", "Host: localhost", *harmless, "Connection: close"]
    came = answer(exporter, "\r\n".join([*lines, "", ""]).encode("latin-1"))
    status = ANSWER.match(came)
    assert status, came[:100]
    assert status[1] in {b"200", b"307", b"400", b"404"}
    head, _, _ = came.partition(b"\r\n\r\n")
    assert b"evil" not in head

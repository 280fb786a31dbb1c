"""The exporter as a process: what it answers, what it says, and how it ends."""

from __future__ import annotations

import gzip
import json
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import jsonschema
import psutil
import psycopg
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from tests.support.exporter import Exporter, write_config
from tests.support.proxy import Proxy
from tests.support.requirements import program
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.command import Pglock
    from tests.support.servers import Connect, Connection, StartServer

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.fixture
def exporter(pglock: Pglock) -> Iterator[Exporter]:
    with Exporter(pglock, "--interval", "200ms") as exporter:
        exporter.await_up()
        yield exporter


def targets_config(directory: Path, **dsns: str) -> str:
    tables = "".join(
        f"[[targets]]\nname = {json.dumps(name)}\ndsn = {json.dumps(dsn)}\n" for name, dsn in dsns.items()
    )
    return write_config(directory, tables)


def test_promtool_finds_nothing(exporter: Exporter) -> None:
    for path in ("/metrics", "/probe?target=" + next(iter(exporter.values("pglock_up")))):
        answer = exporter.get(path)
        checked = subprocess.run(
            [program("promtool"), "check", "metrics"], input=answer.body, capture_output=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_openmetrics_for_who_reads_it(exporter: Exporter) -> None:
    answer = exporter.get("/metrics", accept=PROMETHEUS)
    assert answer.headers["content-type"].startswith(
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    )
    names = {family.name for family in parse_openmetrics(answer.text)}  # type: ignore[no-untyped-call]
    assert {"pglock_up", "pglock_poll_failures", "pglock_job_observed_hold_seconds"} <= names


@pytest.mark.parametrize(
    "accept", ["", "*/*", "text/html", "application/openmetrics-text;version=abc", "ü;=,,"]
)
def test_the_plain_format_for_all_others(exporter: Exporter, accept: str) -> None:
    answer = exporter.get("/metrics", accept=accept.encode().decode("latin-1"))
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert exporter.samples()


def test_compressed_if_asked(exporter: Exporter) -> None:
    answer = exporter.get("/metrics", accept_encoding="deflate, gzip;q=1.0")
    assert answer.headers["content-encoding"] == "gzip"
    assert b"pglock_up" in gzip.decompress(answer.body)
    for refused in ("", "identity", "gzip;q=0", "br"):
        assert "content-encoding" not in exporter.get("/metrics", accept_encoding=refused).headers


def test_the_document_is_that_of_the_schema_and_has_no_queries(exporter: Exporter, connect: Connect) -> None:
    connect().execute("SELECT pg_advisory_lock(7) /* secret */")

    def document() -> Any:  # noqa: ANN401
        return json.loads(exporter.get("/api/v1/report").text)

    wait_until(lambda: document()["locks"], "the lock is seen", timeout=60)
    schema = json.loads((files("pglock_inspect") / "data" / "report.schema.json").read_text())
    jsonschema.validate(document(), schema)
    (lock,) = document()["locks"]
    assert lock["session"]["query"] is None
    for path in ("/api/v1/report", "/metrics", "/"):
        answer = exporter.get(path)
        assert answer.status == 200
        assert b"secret" not in answer.body


def test_queries_where_they_are_asked_for(pglock: Pglock, connect: Connect) -> None:
    connect().execute("SELECT pg_advisory_lock(7) /* asked for */")
    with Exporter(pglock, "--expose-queries") as exporter:
        exporter.await_up()
        for path in ("/api/v1/report", "/"):
            assert b"asked for" in exporter.get(path).body


def test_the_page_and_its_files(exporter: Exporter) -> None:
    page = exporter.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert exporter.get("/assets/style.css").headers["content-type"] == "text/css; charset=utf-8"
    for path in ("/assets/", "/assets/..%2frender.py", "/assets/nothing.css"):
        assert exporter.get(path).status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/probe", 400),
        ("GET", "/probe?target=nobody", 404),
        ("GET", "/probe?target=host%3Devil.example%20user%3Dpostgres", 404),
        ("GET", "/probe?target=" + "%FF" * 500, 404),
        ("GET", "/api/v1/report?target=nobody", 404),
        ("GET", "/?target=%1b[31m", 404),
        ("POST", "/metrics", 405),
        ("PUT", "/", 405),
        ("DELETE", "/healthz", 405),
        ("OPTIONS", "/metrics", 405),
        ("TRACE", "/metrics", 405),
        ("HEAD", "/metrics", 200),
    ],
)
def test_what_is_not_there_or_not_to_be_done(exporter: Exporter, method: str, path: str, status: int) -> None:
    answer = exporter.get(path, method=method)
    assert answer.status == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.body == b"" if method == "HEAD" else answer.body


def test_two_hundred_at_once_are_answered_by_one_session(exporter: Exporter, janitor: Connection) -> None:
    ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'pglock-inspect'"
    before = janitor.execute(ours).fetchall()
    seen = []
    with ThreadPoolExecutor(200) as pool:
        scrapes = [pool.submit(exporter.get, "/metrics") for _ in range(200)]
        while not all(scrape.done() for scrape in scrapes):
            seen.append(janitor.execute(ours).fetchall())
    assert {scrape.result().status for scrape in scrapes} == {200}
    assert len(before) == 1
    assert all(sessions == before for sessions in seen)


def test_targets_of_the_configuration(stray: Pglock, dsn: str, tmp_path: Path) -> None:
    config = targets_config(tmp_path, one=dsn, **{'tw"o\\': dsn}, dead="host=127.0.0.1 port=1")
    with Exporter(stray, "--config", config, "--interval", "200ms") as exporter:
        exporter.await_up(2)
        assert exporter.values("pglock_up") == {"one": 1, 'tw"o\\': 1, "dead": 0}
        assert exporter.values("pglock_up", "/probe?target=tw%22o%5C") == {'tw"o\\': 1}
        documents = json.loads(exporter.get("/api/v1/report").text)
        assert [document["target"] for document in documents] == ["one", 'tw"o\\', "dead"]
        assert json.loads(exporter.get("/api/v1/report?target=one").text)["target"] == "one"
        assert exporter.get("/?target=one").status == 200
        text = exporter.get("/metrics").text
        assert text.count("# TYPE pglock_up ") == 1
        assert text.count("pglock_build_info{") == 1
    with Exporter(stray, "--config", config, "--target", "one") as exporter:
        assert exporter.values("pglock_up").keys() == {"one"}


def test_ready_while_there_is_anything_to_show(stray: Pglock, dsn: str, tmp_path: Path) -> None:
    dead = "host=127.0.0.1 port=1"
    with Exporter(stray, "--dsn", dead) as exporter:
        wait_until(lambda: "cannot connect" in exporter.said, "it was tried", timeout=60)
        assert (exporter.get("/healthz").status, exporter.get("/readyz").status) == (200, 503)
        assert exporter.get("/").status == 200
    with Exporter(stray, "--config", targets_config(tmp_path, dead=dead, one=dsn)) as exporter:
        exporter.await_up()
        assert exporter.get("/readyz").text.startswith("1 of 2 targets")


def test_it_ends_while_it_makes_something_large(start_server: StartServer, stray: Pglock) -> None:
    server = start_server({"max_locks_per_transaction": 2_000})
    with (
        psycopg.connect(server.dsn(), autocommit=True) as session,
        Exporter(stray, "--dsn", server.dsn()) as exporter,
    ):
        session.execute("SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 100000) AS n")
        wait_until(lambda: 100_000 in exporter.samples().values(), "all are seen", timeout=60)
        with exporter.raw() as client:
            client.sendall(b"GET /api/v1/report HTTP/1.1\r\nHost: localhost\r\n\r\n")
            exporter.get("/healthz")  # so that it has begun
            ended = exporter.stop()
    assert (ended.code, "Traceback" in ended.said) == (0, False)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_whatever_hangs(stray: Pglock, dsn: str, tmp_path: Path, signum: signal.Signals) -> None:
    """Well under three seconds; the bound here is for a machine that does ten things at once."""
    with Proxy(dsn) as proxy:
        config = targets_config(tmp_path, one=dsn, frozen=proxy.dsn, dead="host=127.0.0.1 port=1")
        state_file = tmp_path / "state.json"
        with Exporter(
            stray, "--config", config, "--interval", "200ms", "--state-file", str(state_file)
        ) as exporter:
            exporter.await_up(2)
            proxy.frozen = True
            with exporter.connected() as idle, exporter.raw() as silent, exporter.raw() as halfway:
                idle.request("GET", "/metrics")
                idle.getresponse().read()
                halfway.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
                ended = exporter.stop(signum)
                assert silent.recv(1) == b""
            proxy.frozen = False
    assert ended.code == 0
    assert ended.seconds < 10
    assert "Traceback" not in ended.said
    assert json.loads(state_file.read_bytes())["states"].keys() == {"one", "frozen", "dead"}


def test_a_line_for_each_change_and_none_for_requests(start_server: StartServer, stray: Pglock) -> None:
    server = start_server()
    with Exporter(stray, "--dsn", server.dsn(), "--interval", "200ms") as exporter:
        exporter.await_up()
        server.stop()
        exporter.await_up(0)
        server.start()
        exporter.await_up(1)
        ended = exporter.stop()
    where = f"pglock-inspect: 127.0.0.1:{server.port}: "
    listening, away, *_, back = ended.said.splitlines()
    assert listening.startswith("pglock-inspect: listening on http://127.0.0.1:")
    assert away.startswith(f"{where}cannot ")
    assert back.startswith(f"{where}can be read again, after ")


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6")
def test_every_address(stray: Pglock) -> None:
    with Exporter(stray, "--dsn", "host=127.0.0.1 port=1", "--listen", "[::]:0") as exporter:
        for host in ("127.0.0.1", "::1"):
            with socket.create_connection((host, exporter.address[1]), timeout=60) as client:
                client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
                assert client.recv(12) == b"HTTP/1.1 200"


def test_a_port_that_is_taken(exporter: Exporter, pglock: Pglock) -> None:
    host, port = exporter.address
    done = pglock("serve", "--listen", f"{host}:{port}", code=3)
    assert done.stderr == (
        f"pglock-inspect: cannot listen on {host}:{port}: Address already in use; name another "
        "with --listen\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--listen", "10187"], "invalid value for '--listen': '10187' is no ADDRESS:PORT to listen on"),
        (
            ["--listen", "nowhere.invalid:1"],
            "cannot listen on nowhere.invalid:1: no host has this name; name ",
        ),
        (["--listen", "192.0.2.1:1"], "cannot listen on 192.0.2.1:1: Cannot assign requested address; name "),
        (["--tls-key", "a.key"], "--tls-key is the key of a certificate: give --tls-cert too"),
        (
            ["--tls-cert", "nothing.pem"],
            "the certificate cannot be read (No such file or directory): correct",
        ),
        (["--listen", "127.0.0.1:0", "--state-file", "/proc/nothing"], "/proc/nothing cannot be written"),
        (["--dsn", "nonsense"], "--dsn: the connection string cannot be read"),
        (["--target", "prod"], "no targets are configured"),
    ],
)
def test_what_cannot_be_started_is_one_sentence(stray: Pglock, arguments: list[str], sentence: str) -> None:
    done = stray("serve", *arguments, code=3)
    assert done.stderr.startswith(f"pglock-inspect: {sentence}"), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_threads_and_descriptors_do_not_pile_up(exporter: Exporter) -> None:
    process = psutil.Process(exporter.pid)
    for _ in range(20):
        exporter.get("/metrics")
    before = process.num_fds(), process.num_threads()
    for _ in range(100):
        exporter.get("/metrics")
        exporter.get("/api/v1/report")
    wait_until(lambda: process.num_fds() <= before[0], "all are closed")
    assert process.num_threads() <= before[1] + 8  # the pool's

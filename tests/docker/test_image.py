"""The image of the Dockerfile: built, and run as an operator runs it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.error import URLError

import psycopg
import pytest

from pglock_inspect import __version__
from tests.support.containers import Container, docker, inspect
from tests.support.requirements import program
from tests.support.servers import postgres_container
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Connection

# One after the other: they share the image and its server.
pytestmark = [pytest.mark.requires("docker"), pytest.mark.xdist_group("image")]

_ROOT = Path(__file__).parents[2]
_IMAGE = "pglock-inspect:test"
_BASE = "python:3.13-slim"
_LOCKED_DOWN = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")
_OFTEN = "--health-interval=1s"
_HEALTH = ("python", "-m", "pglock_inspect.serve.health")


class Database(NamedTuple):
    """A server that a container reaches by ``dsn``."""

    dsn: str
    connection: Connection


@pytest.fixture(scope="module")
def image() -> str:
    """Built with the network of this machine: where Docker may not set up its own, it has no other."""
    arguments = ("--build-arg", f"VERSION={__version__}", "--build-arg", "REVISION=0123abc")
    docker("build", "--network", "host", "--tag", _IMAGE, *arguments, str(_ROOT))
    return _IMAGE


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with postgres_container() as container:
        address = inspect(container.get_wrapped_container().id)["NetworkSettings"]["IPAddress"]
        with psycopg.connect(container.get_connection_url(driver=None), autocommit=True) as connection:
            yield Database(f"host={address} user=postgres dbname=postgres", connection)


@pytest.fixture
def exporter(image: str, database: Database) -> Iterator[Container]:
    """With the command of the image, and no right that it can do without."""
    options = ("--publish", "127.0.0.1::10187", "--env", f"PGLOCK_DSN={database.dsn}", _OFTEN)
    with Container(*_LOCKED_DOWN, *options, image) as container:
        wait_until(lambda: "pglock_up{" in answered(container, "/metrics"), "it is scraped", timeout=120)
        yield container


def answered(container: Container, path: str) -> str:
    try:
        return container.get(10187, path)
    except (URLError, ConnectionError):  # not yet
        return ""


def test_what_it_is(image: str, record_property: Callable[[str, str], None]) -> None:
    known, base = inspect(image), inspect(_BASE)
    config = known["Config"]
    assert config["User"] == "65532:65532"  # numeric, for runAsNonRoot
    assert [*config["ExposedPorts"]] == ["10187/tcp"]
    labels = {name.rpartition(".")[2]: text for name, text in config["Labels"].items()}
    assert labels.pop("description")
    assert labels == {
        "title": "pglock-inspect",
        "licenses": "MIT",
        "version": __version__,
        "revision": "0123abc",
    }
    own = known["Size"] - base["Size"]
    record_property(
        "counted", f"image: {known['Size'] / 1e6:.0f} MB, of which {own / 1e6:.0f} MB are its own"
    )
    assert own < 150e6


def test_it_is_scraped_read_and_healthy_with_all_rights_taken(
    exporter: Container, database: Database
) -> None:
    database.connection.execute("SELECT pg_advisory_lock(4711)")
    wait_until(
        lambda: re.search(
            r'^pglock_locks\{database="postgres",state="held",.*\} 1\.0$', metrics(exporter), re.MULTILINE
        ),
        "the lock is seen",
        timeout=60,
    )
    checked = subprocess.run(
        [program("promtool"), "check", "metrics"],
        input=metrics(exporter),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert "4711" in exporter.get(10187, "/")
    wait_until(lambda: exporter.health == "healthy", "it is healthy", timeout=60)
    assert exporter.exec("id", "-u", "-n") == "pglock-inspect\n"
    database.connection.execute("SELECT pg_advisory_unlock(4711)")


def metrics(container: Container) -> str:
    return container.get(10187, "/metrics")


def test_docker_stop_ends_it_soon(exporter: Container) -> None:
    code, seconds = exporter.stop()
    assert code == 0
    assert seconds < 3
    assert "Traceback" not in exporter.said


def test_its_health_wherever_and_however_it_listens(image: str, database: Database, tmp_path: Path) -> None:
    pair = tmp_path / "pair.pem"
    request = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=elsewhere"]
    subprocess.run([*request, "-keyout", pair, "-out", pair], check=True, capture_output=True)
    pair.chmod(0o644)
    tls = ("--volume", f"{pair}:/pair.pem:ro", _OFTEN, image, "serve", "--tls-cert", "/pair.pem")
    with Container(*_LOCKED_DOWN, *tls, "--listen", "127.0.0.1:9000", "--dsn", database.dsn) as container:
        wait_until(lambda: container.health == "healthy", "it is healthy", timeout=120)
        assert container.said.count("\n") == 1, container.said


def test_ill_where_nothing_answers(image: str) -> None:
    docker("run", "--rm", *_LOCKED_DOWN, "--entrypoint", _HEALTH[0], image, *_HEALTH[1:], code=1)


def test_every_other_command(image: str, database: Database) -> None:
    database.connection.execute("SELECT pg_advisory_lock(815)")
    listed = docker("run", "--rm", *_LOCKED_DOWN, image, "ls", "--dsn", database.dsn)
    database.connection.execute("SELECT pg_advisory_unlock(815)")
    assert "815" in listed
    assert docker("run", "--rm", image, "--version") == f"pglock-inspect {__version__}\n"


def test_nothing_is_compiled_when_it_starts(image: str) -> None:
    imported = "pglock_inspect.cli.serve, pglock_inspect.serve.web, pglock_inspect.serve.health"
    told = docker("run", "--rm", "--entrypoint", "python", image, "-v", "-c", f"import {imported}")
    assert "serve/__pycache__/web." in told
    assert re.findall(r"code object from '?([^'\s]*\.py)'?$", told, re.MULTILINE) == []

"""Names and queries that try to do something to whoever looks at them."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from pglock_inspect.demo.server import TemporaryServer
from pglock_inspect.present.cells import width
from tests.support.command import Pglock
from tests.support.servers import bindir

if TYPE_CHECKING:
    from collections.abc import Iterator


NAME = "\x1b[31m[red]\u202eevil\u200b[/]"
COMMENT = "\x1b[2J\x1b]0;title\x07 \u202egnp.exe\u2066 [bold red]x[/] \r\n\t\x9b31m =cmd|' /C calc'!A0 % | "


@pytest.fixture(scope="module", params=["UTF8", "SQL_ASCII"])
def hostile(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pglock]:
    """A server on which everything that a client may choose is hostile."""
    settings = {"track_activity_query_size": 1048576}
    with TemporaryServer(bindir=bindir(), settings=settings, encoding=request.param) as server:
        with psycopg.connect(server.dsn(client_encoding="UTF8"), autocommit=True) as admin:
            admin.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER").format(sql.Identifier(NAME)))
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
        with psycopg.connect(
            server.dsn(), user=NAME, dbname=NAME, application_name=f"={NAME}\n", autocommit=True
        ) as session:
            query = f"SELECT pg_advisory_lock(hashtext('x')) /* {COMMENT} */".encode()
            if request.param == "SQL_ASCII":
                query += b" -- \xff\xfe\xc3("
            session.execute(query + b" -- " + b"x" * 1_000_000)
            yield Pglock(tmp_path_factory.mktemp("hostile"), server.dsn())


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_the_table_is_inert(hostile: Pglock, columns: str) -> None:
    lines = hostile("ls", "--job", "x", env={"COLUMNS": columns}).stdout.splitlines()
    assert all(line.isprintable() for line in lines)
    assert max(map(width, lines)) <= int(columns)


def test_endless_lines_are_inert(hostile: Pglock) -> None:
    text = hostile("ls").stdout
    assert all(line.isprintable() for line in text.splitlines())
    assert r"\x1b[31m[red]\u202eevil\u200b[/]" in text  # the user
    assert r"/* \x1b[2J\x1b]0;title\x07 \u202egnp.exe\u2066 [bold red]x[/]" in text
    assert len(text) < 5_000


def test_json_keeps_everything_and_shows_nothing(hostile: Pglock) -> None:
    text = hostile("ls", "--format", "json").stdout
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    (lock,) = json.loads(text)["locks"]
    assert lock["key"]["database"] == lock["session"]["user"] == NAME
    assert COMMENT in lock["session"]["query"]
    assert len(lock["session"]["query"]) > 1_000_000


def test_csv_is_inert(hostile: Pglock) -> None:
    text = hostile("ls", "--format", "csv").stdout
    assert all(line.isprintable() for line in text.splitlines())
    (row,) = csv.DictReader(text.splitlines())
    assert row["application_name"].startswith("'=")


def test_the_plugin_line_is_inert(hostile: Pglock) -> None:
    done = hostile("check", "--max-held", "1ms", code=1)
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert done.stdout.splitlines()[0].count("|") == 1

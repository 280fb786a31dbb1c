from __future__ import annotations

import json
from typing import TYPE_CHECKING

import psycopg

from tests.support.command import Pglock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import StartServer

NAME = "été's report \\"


def test_the_server_is_asked_where_it_hashes(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(encoding="LATIN1")
    pglock = Pglock(tmp_path)
    arguments = ("key", NAME, "--scheme", "hashtext", "--scheme", "crc32-signed", "--format", "json")
    asked = {key["scheme"]: key for key in json.loads(pglock(*arguments, "--dsn", server.dsn()).stdout)}
    computed = {key["scheme"]: key for key in json.loads(pglock(*arguments).stdout)}
    with psycopg.connect(server.dsn(client_encoding="UTF8")) as connection:
        row = connection.execute("SELECT hashtext(%s)", [NAME]).fetchone()
        assert row == (asked["hashtext"]["value"],)
        connection.execute(asked["hashtext"]["sql"])
        held = connection.execute("SELECT classid, objid, objsubid FROM pg_locks WHERE locktype = 'advisory'")
        (key,) = held.fetchall()
    assert key == tuple(asked["hashtext"][part] for part in ("classid", "objid", "objsubid"))
    assert asked["hashtext"]["value"] != computed["hashtext"]["value"]
    assert asked["crc32-signed"] == computed["crc32-signed"]


def test_a_name_that_the_database_cannot_hold(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server(encoding="LATIN1")
    done = Pglock(tmp_path)("key", "отчёт", "--dsn", server.dsn(), code=3)
    assert done.stderr.startswith("pglock-inspect: the database has no key for this name: ")


def test_a_variable_alone_asks_nobody(tmp_path: Path) -> None:
    Pglock(tmp_path, "host=127.0.0.1 port=1")("key", "send_daily_digest")


def test_one_server_is_asked(tmp_path: Path) -> None:
    tmp_path.joinpath("own.toml").write_text(
        '[[targets]]\nname = "a"\ndsn = "host=a"\n[[targets]]\nname = "b"\ndsn = "host=b"\n'
    )
    done = Pglock(tmp_path)("key", "x", "--config", "own.toml", "--target", "all", code=3)
    assert done.stderr == "pglock-inspect: key asks one server: give one --target\n"

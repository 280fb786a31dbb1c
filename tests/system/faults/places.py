"""Where faults happen: servers, and ways to them."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.pooler import pgbouncer
from tests.support.proxy import Proxy
from tests.support.requirements import program
from tests.support.servers import bindir
from tests.system.faults.stage import Stage

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.support.servers import StartServer

ROLE = "CREATE ROLE watch LOGIN PASSWORD 'old' IN ROLE pg_monitor"
WRONG_BY = 7200.0
"""Seconds: longer than a job may be held, so that a clock that is believed makes it stale."""


class ProxyStage(Stage):
    def __init__(self, start: StartServer) -> None:
        server = start()
        self.proxy = Proxy(server.dsn())
        super().__init__(server, self.proxy.dsn)
        self.enter_context(self.proxy)


class PoolerStage(Stage):
    def __init__(self, start: StartServer) -> None:
        server = start()
        self.pooler: AbstractContextManager[str] = pgbouncer(server.dsn(), "transaction", pool_size=4)
        super().__init__(server, self.pooler.__enter__())
        self.sessions = 0  # in transactions only do they bear a name
        self.callback(lambda: self.pooler.__exit__(None, None, None))  # which may be another one by then

    def pooler_again(self) -> AbstractContextManager[str]:
        """Return a pooler on the port of the first one."""
        port = int(conninfo_to_dict(self.dsn)["port"] or 0)
        return pgbouncer(self.server.dsn(), "transaction", pool_size=4, port=port)


class TwoHostsStage(Stage):
    def __init__(self, start: StartServer) -> None:
        server = start()
        self.standby = server.standby()
        with ExitStack() as opened:
            opened.enter_context(self.standby)
            ports = f"{server.port},{self.standby.port}"
            both = server.dsn(host="127.0.0.1,127.0.0.1", port=ports, target_session_attrs="read-write")
            super().__init__(server, both)
            self.dsn_of_workers = f"{both} application_name=worker"
            self.push(opened.pop_all())


class ClockStage(Stage):
    """A server whose clock can be set, also while it runs."""

    def __init__(self, start: StartServer, ahead: float = 0.0) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="clock-", dir="/tmp"))
        try:
            self._directory.chmod(0o755)  # the server's user is another one
            self.set_clock(ahead)
            self._write("initdb")
            self._write("postgres", "env", *self._variables())
            super().__init__(start(bindir=self._directory))
        except BaseException:
            shutil.rmtree(self._directory)
            raise
        self.callback(shutil.rmtree, self._directory)

    def set_clock(self, ahead: float) -> None:
        new = self._directory / "new"
        new.write_text(f"{ahead:+.0f}s\n")
        new.rename(self._directory / "clock")

    def _variables(self) -> list[str]:
        shown = subprocess.check_output([program("faketime"), "-f", "+0s", "env"], text=True)
        return [
            next(line for line in shown.splitlines() if line.startswith("LD_PRELOAD=")),
            f"FAKETIME_TIMESTAMP_FILE={self._directory / 'clock'}",
            "FAKETIME_NO_CACHE=1",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
            "NO_FAKE_STAT=1",
        ]

    def _write(self, name: str, *prefix: str) -> None:
        script = self._directory / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join([*prefix, str(bindir() / name)])} "$@"\n')
        script.chmod(0o755)


def plain(start: StartServer) -> Stage:
    return Stage(start())


def with_role(start: StartServer) -> Stage:
    server = start(password="of postgres")
    stage = Stage(server, server.dsn(user="watch", password="old"))
    stage.admin().execute(ROLE)
    return stage


def small(start: StartServer) -> Stage:
    """Few locks and connections, watched by a role that has none reserved."""
    settings = {"max_connections": 12, "max_locks_per_transaction": 10, "superuser_reserved_connections": 2}
    server = start(settings)
    stage = Stage(server, server.dsn(user="watch"))
    stage.admin().execute(ROLE)
    return stage


def with_worker_of_a_role(start: StartServer) -> Stage:
    stage = plain(start)
    stage.admin().execute("CREATE ROLE app LOGIN")
    stage.dsn_of_workers = stage.server.dsn(user="app", application_name="worker")
    return stage


def with_database(start: StartServer) -> Stage:
    server = start()
    stage = Stage(server, server.dsn(dbname="app"))
    stage.admin().execute("CREATE DATABASE app")
    return stage


def ahead(start: StartServer) -> Stage:
    return ClockStage(start, WRONG_BY)


def behind(start: StartServer) -> Stage:
    return ClockStage(start, -WRONG_BY)


def latin1(start: StartServer) -> Stage:
    stage = Stage(start(encoding="LATIN1"))
    stage.job = "für dich"
    stage.statement = "SELECT pg_advisory_lock(hashtext('für dich'))".encode("latin-1")
    stage.dsn_of_workers += " client_encoding=LATIN1"
    return stage


def sql_ascii(start: StartServer) -> Stage:
    stage = Stage(start(encoding="SQL_ASCII"))
    stage.statement += b" /* \xff\xfe caf\xe9 */"
    return stage


def is_up(stage: Stage) -> bool:
    try:
        psycopg.connect(stage.server.dsn()).close()
    except psycopg.OperationalError:
        return False
    return True

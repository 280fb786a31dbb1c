"""A server on which is what the pages tell of, and a directory with the files that they name."""

from __future__ import annotations

import gzip
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.support.command import environment
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pglock_inspect.demo.server import TemporaryServer
    from tests.support.servers import Connection

MIGRATIONS = 1726534663  # golang-migrate's key for public, schema_migrations and /app
_SCHEMA = """
    CREATE TABLE orders (id int);
    CREATE TABLE subscribers (id int);
    ALTER TABLE orders OWNER TO deploy;
    GRANT ALL ON orders, subscribers TO app, deploy;
"""
_SETTINGS = f"""
[defaults]
max_wait = "1s"

[[jobs]]
name = "send_daily_digest"
max_held = "1s"

[[jobs]]
name = "golang-migrate migrations"
key = {MIGRATIONS}
max_held = "1s"

[[jobs]]
name = "cache-rebuild"
key = [42, 7]

[rules.holder-blocked]
threshold = "1s"
"""
_TARGETS = """
[[targets]]
name = "prod"
dsn = "service=prod"

[[targets]]
name = "staging"
dsn = "service=prod"
"""
_PROGRAMS = ("digest", "manage.py", "migrate", "psql")
_LOG = """\
DETAIL:  Process 41 waits for ExclusiveLock on advisory lock [16391,0,42,1]; blocked by process 42.
"""


class Stage:
    """`worker` was left with the lock of a job; `deploy-1` has that of a migration, and waits for `billing`.

    `directory` becomes the working directory, the home, and what holds the files. `leave` ends it.
    """

    def __init__(self, server: TemporaryServer, directory: Path) -> None:
        self._server, self.directory = server, directory
        self.dsn = server.dsn(dbname="app")
        with psycopg.connect(server.dsn(), autocommit=True) as admin:
            admin.execute(
                "CREATE ROLE app LOGIN; CREATE ROLE deploy LOGIN; CREATE ROLE watcher SUPERUSER LOGIN"
            )
            admin.execute("CREATE DATABASE app")
        with psycopg.connect(self.dsn) as admin:
            admin.execute(_SCHEMA.encode())
        self._sessions: dict[str, Connection] = {}
        self._threads: list[threading.Thread] = []
        self._furnish()
        self.play()
        self._record()

    def pid(self, application: str) -> int:
        """Return the process that serves a session of this name."""
        return self._sessions[application].info.backend_pid

    def play(self) -> None:
        """Put on stage whoever is missing: what a page tells to kill is killed."""
        with psycopg.connect(self.dsn) as admin:
            alive = {
                pid for (pid,) in admin.execute("SELECT pid FROM pg_stat_activity WHERE state IS NOT NULL")
            }
            waiting = {pid for (pid,) in admin.execute("SELECT pid FROM pg_locks WHERE NOT granted")}
        expected = {"worker-3", "billing", "deploy-1", "deploy-2"}
        there = {name for name in self._sessions if self.pid(name) in alive}
        if there == expected and {self.pid("deploy-1"), self.pid("deploy-2")} <= waiting:
            return
        self.leave()
        self._open("app", "worker-3").execute("SELECT pg_try_advisory_lock(hashtext('send_daily_digest'))")
        self._sessions["worker-3"].execute("SELECT count(*) FROM subscribers")
        self._open("app", "billing").execute("BEGIN")
        self._sessions["billing"].execute("INSERT INTO orders VALUES (1)")
        self._open("deploy", "deploy-1").execute(f"SELECT pg_advisory_lock({MIGRATIONS})".encode())
        self._wait("deploy-1", "ALTER TABLE orders ADD COLUMN note text")
        self._open("deploy", "deploy-2")
        self._wait("deploy-2", f"SELECT pg_advisory_lock({MIGRATIONS})")
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            late = (
                "SELECT count(*) FROM pg_locks WHERE NOT granted AND clock_timestamp() - waitstart > '1.2 s'"
            )
            wait_until(lambda: admin.execute(late).fetchone() == (2,), "both wait for long")

    def leave(self) -> None:
        """End all sessions."""
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            pids = [self.pid(name) for name in self._sessions]
            admin.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", [pids])
        for thread in self._threads:
            thread.join()
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._threads.clear()

    def environment(self) -> dict[str, str]:
        """Return what a shell on this stage has."""
        programs = os.pathsep.join(
            [str(self.directory / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        return environment(
            self.directory,
            PATH=programs,
            PGLOCK_DSN=self.dsn,
            PGLOCK_LISTEN="127.0.0.1:0",
            PGSERVICEFILE=str(self.directory / "services"),
            TERM="tmux-256color",
            COLUMNS="100",
        )

    def put_in(self, line: str) -> str:
        """Return a command of a page with what is true here for what is an example there."""
        names = {
            "host=pgbouncer dbname=app": self.dsn,
            "host=db.example.com user=watcher dbname=app sslmode=verify-full sslrootcert=system "
            "passfile=/run/pgpass": f"{self.dsn} user=watcher",
            "/var/lib/pglock-inspect": ".",
            "/var/lib/node_exporter": ".",
            "0.0.0.0:10187": "127.0.0.1:0",
            "4711": str(self.pid("worker-3")),
            "4720": str(self.pid("deploy-2")),
            "2947": str(self.pid("deploy-2")),
        }
        for told, true in names.items():
            line = line.replace(told, true)
        line = re.sub(r"--(within|for|wait) \w+", r"--\1 1s", line)
        line = re.sub(r"--at -\w+", "--at -200ms", line)
        line = re.sub(r" init$", f" init -C {mkdtemp(dir=self.directory)}", line)
        return re.sub(r"--at \d\S+", f"--at {self._recorded_at}", line)

    def _open(self, user: str, application: str) -> Connection:
        dsn = self._server.dsn(dbname="app", user=user, application_name=application)
        self._sessions[application] = psycopg.connect(dsn, autocommit=True)
        return self._sessions[application]

    def _wait(self, application: str, statement: str) -> None:
        """Let a session run a statement that it will not come back from."""

        def run() -> None:
            with suppress(psycopg.Error):
                self._sessions[application].execute(statement.encode())

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()
        pid = self.pid(application)
        with psycopg.connect(self.dsn, autocommit=True) as admin:
            waits = f"SELECT 1 FROM pg_locks WHERE NOT granted AND pid = {pid}"
            wait_until(lambda: admin.execute(waits.encode()).fetchone(), f"{application} waits")

    def _furnish(self) -> None:
        service = "".join(f"{name}={value}\n" for name, value in conninfo_to_dict(self.dsn).items())
        files = {
            "services": f"[prod]\n{service}",
            "pglock-inspect.toml": _SETTINGS,
            ".config/pglock-inspect/config.toml": _TARGETS,
            "clusters.toml": _TARGETS,
            "close_books.sql": "SELECT 1\n",
            "postgresql.log": _LOG,
        }
        for name, text in files.items():
            file = self.directory / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (self.directory / "bin").mkdir()
        for name in _PROGRAMS:
            for file in (self.directory / name, self.directory / "bin" / name):
                file.write_text("#!/bin/sh\nexit 0\n")
                file.chmod(0o755)

    def _record(self) -> None:
        with shell(self, "pglock-inspect record night.rec --every 200ms --for 1s --target prod") as process:
            _, stderr = process.communicate(timeout=60)
        assert process.returncode == 0, stderr
        with gzip.open(self.directory / "night.rec", "rt") as lines:
            self._recorded_at = json.loads(next(lines))["taken_at"]


def shell(stage: Stage, line: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Start a line as a shell does, in a process group of its own."""
    return subprocess.Popen(
        ["/bin/sh", "-c", line],
        cwd=stage.directory,
        env=stage.environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )

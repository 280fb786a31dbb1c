"""Metrics of hostile names, and of very many keys and jobs."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from tests.support.exporter import Exporter, write_config
from tests.support.requirements import program
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Pglock
    from tests.support.servers import StartServer

HOSTILE = ['a"b\\', "line\nbreak", "\x1b[31mred", "# EOF", "\u202eturned", "{}", "a\\nb", "line\\nbreak"]


def checked(text: str) -> None:
    done = subprocess.run(
        [program("promtool"), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_hostile_names_of_jobs_databases_and_targets(
    start_server: StartServer, stray: Pglock, tmp_path: Path
) -> None:
    server = start_server()
    with psycopg.connect(server.dsn(), autocommit=True) as admin:
        for name in HOSTILE:
            admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    tables = [f"[[jobs]]\nname = {json.dumps(name)}" for name in HOSTILE]
    tables += [
        f"[[targets]]\nname = {json.dumps(name)}\ndsn = {json.dumps(server.dsn())}" for name in HOSTILE[:3]
    ]
    config = write_config(tmp_path, "\n".join(tables) + "\n")
    sessions = [psycopg.connect(server.dsn(dbname=name), autocommit=True) for name in HOSTILE]
    try:
        for session, name in zip(sessions, HOSTILE, strict=True):
            session.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
        with Exporter(stray, "--config", config, "--interval", "200ms") as exporter:
            exporter.await_up(3)
            text = exporter.get("/metrics").text
            checked(text)
            assert all(line.isprintable() for line in text.splitlines())
            held = {
                (dict(sample.labels)["database"], dict(sample.labels)["name"]): value
                for sample, value in exporter.samples().items()
                if sample.name == "pglock_job_held" and ("target", 'a"b\\') in sample.labels
            }
            # Two of the names look the same once they can be seen.
            assert len(held) == len(HOSTILE) - 1
            assert held['a"b\\', 'a"b\\'] == 1
            assert held[r"\x1b[31mred", r"\x1b[31mred"] == 1
            assert exporter.get("/").status == 200
            assert json.loads(exporter.get("/api/v1/report").text)
    finally:
        for session in sessions:
            session.close()


def test_a_hundred_thousand_keys_and_five_hundred_jobs(
    start_server: StartServer, stray: Pglock, tmp_path: Path
) -> None:
    server = start_server({"max_locks_per_transaction": 2_000})
    config = write_config(
        tmp_path, "".join(f'[[jobs]]\nname = "job {n}"\nmax_held = "10m"\n' for n in range(500))
    )
    with (
        psycopg.connect(server.dsn(), autocommit=True) as session,
        Exporter(stray, "--config", config, "--dsn", server.dsn(), "--interval", "500ms") as exporter,
    ):
        exporter.await_up()
        before = exporter.samples()
        session.execute("SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 100000) AS n")
        session.execute(
            "SELECT count(pg_advisory_lock(hashtext('job ' || n))) FROM generate_series(0, 499) AS n"
        )

        def locks() -> float:
            return max(value for sample, value in exporter.samples().items() if sample.name == "pglock_locks")

        wait_until(lambda: locks() >= 100_500, "all are seen", timeout=60)
        after = exporter.samples()
        checked(exporter.get("/metrics").text)
    of_jobs = [sample for sample in after if ("name", "job 7") in sample.labels]
    assert len(of_jobs) <= 20
    assert len(after) <= len(before) + 500 * 2 + 10
    assert len(after) < 500 * 20 + 200

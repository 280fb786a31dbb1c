"""The tests on a server that was given to them, with `PGLOCK_TEST_DSN`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from tests.support.servers import StartServer

LEAVING = (
    "tests/postgres/test_held.py::test_a_prepared_transaction_has_held_it_at_least_since_then",
    "tests/postgres/test_stamps.py::test_a_prepared_transaction_keeps_its_stamp",
)
"""Tests that prepare transactions and leave it at that."""


def test_what_tests_prepare_there_is_gone_and_what_others_prepared_stays(start_server: StartServer) -> None:
    server = start_server()
    with psycopg.connect(server.dsn(), autocommit=True) as own:
        own.execute("BEGIN; PREPARE TRANSACTION 'theirs'")
        ran = subprocess.run(
            (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *LEAVING),
            capture_output=True,
            check=False,
            env=os.environ | {"PGLOCK_TEST_DSN": server.dsn()},
            text=True,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stdout
        assert own.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == [("theirs",)]

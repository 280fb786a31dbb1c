"""A fork shares its parent's sockets, and may not use them."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os, sys
import psycopg
from pglock_inspect import *

dsn = sys.argv[1]

def refused(call):
    try:
        call()
    except UsedAfterFork as error:
        assert "connect anew after a fork" in str(error), error
    else:
        raise AssertionError("it was not refused")

def in_a_child(work):
    pid = os.fork()
    if not pid:
        try:
            work()
        except SystemExit:
            raise  # and end as a program ends
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

unused = psycopg.connect(dsn)
conn = psycopg.connect(dsn)
with try_lock(conn, "job") as lock, try_lock(dsn, "other job") as owned:
    assert lock and owned

    def child():
        refused(lambda: run_with_lock(unused, "job", int))
        refused(lambda: run_with_xact_lock(unused, "job", int))
        refused(lambda: run_with_lock(conn, "a third job", int))
        refused(lock.check)
        refused(owned.check)
        refused(lambda: lock.__exit__(None, None, None))
        refused(lambda: owned.__exit__(None, None, None))
        with psycopg.connect(dsn) as anew:
            assert not run_with_lock(anew, "job", int)
            assert not run_with_xact_lock(anew, "other job", int)
            assert run_with_lock(anew, "a third job", int)
        assert not run_with_lock(dsn, "job", int)
        assert run_with_lock(dsn, "a third job", int)

    in_a_child(child)
    lock.check()
    owned.check()

def leave():
    with try_lock(conn, "job") as lock:
        in_a_child(sys.exit)
        lock.check()

leave()
with psycopg.connect(dsn) as witness:
    assert run_with_lock(witness, "job", int)
    assert run_with_lock(witness, "other job", int)
assert run_with_lock(unused, "job", int)
print("done")
"""


@pytest.mark.parametrize("through", ["tcp", "socket"])
def test_used_after_a_fork(dsn: str, through: str, request: pytest.FixtureRequest) -> None:
    if through == "socket":
        server = request.getfixturevalue("start_server")(tcp=False)
        dsn = server.dsn()
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, dsn]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")

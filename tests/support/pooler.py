"""A PgBouncer of the test's own on loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.requirements import program
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONFIGURATION = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
pool_mode = {mode}
default_pool_size = {pool_size}
ignore_startup_parameters = extra_float_digits,options
logfile = {directory}/log
pidfile = {directory}/pid
"""


@contextmanager
def pgbouncer(
    dsn: str,
    mode: Literal["session", "transaction", "statement"],
    *,
    pool_size: int = 1,
    port: int | None = None,
) -> Iterator[str]:
    """Start a pooler in front of a server that trusts everybody; yields the connection string through it.

    It gets a free port, unless that of one before is given.
    """
    path = program("pgbouncer")
    server = conninfo_to_dict(dsn)
    nobody = pwd.getpwnam("nobody") if os.geteuid() == 0 else None  # it refuses to be root
    directory = Path(tempfile.mkdtemp(prefix="pgbouncer-", dir="/tmp"))
    try:
        if port is None:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
        (directory / "users").write_text('"postgres" ""\n')
        (directory / "ini").write_text(
            _CONFIGURATION.format(
                host=server["host"],
                port=server["port"],
                listen_port=port,
                directory=directory,
                mode=mode,
                pool_size=pool_size,
            )
        )
        if nobody:
            for each in (directory, *directory.iterdir()):
                os.chown(each, nobody.pw_uid, nobody.pw_gid)
        leash = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
        pooler = subprocess.Popen(
            [*leash, path, "-q", str(directory / "ini")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=nobody and nobody.pw_uid,
            group=nobody and nobody.pw_gid,
            extra_groups=[] if nobody else None,
        )
        through = make_conninfo(dsn, host="127.0.0.1", port=port)
        try:
            wait_until(lambda: _answers(through), f"{mode} pooling on port {port}")
            yield through
        finally:
            pooler.kill()
            pooler.wait()
    finally:
        shutil.rmtree(directory)


def _answers(dsn: str) -> bool:
    try:
        psycopg.connect(dsn).close()
    except psycopg.OperationalError:
        return False
    return True

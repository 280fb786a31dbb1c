"""A session with a server: how it is opened, and what it is told about itself."""

from __future__ import annotations

import logging
import os
import re
import traceback
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import pq, waiting
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from pglock_inspect.deadline import within
from pglock_inspect.errors import BadConnectionString, ServerFailure
from pglock_inspect.postgres.failures import bad_conninfo, failure_of, login_hangs
from pglock_inspect.postgres.probe import answers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg.abc import PQGen

T = TypeVar("T")

APPLICATION_NAME = "pglock-inspect"

# That a connection broke is raised; what psycopg logs of it besides would end up on stderr.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_NO_PORT = re.compile(r"[^\d,\s]")
_NO_HOST = re.compile(r"[^,]@")
_PARAMETERS: Mapping[str, str | int] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_PATIENCE = 30.0  # seconds for one answer; a frozen server's kernel goes on to acknowledge what it gets


class _Session(psycopg.Connection[Any]):
    """A connection that waits neither forever nor, after Ctrl-C, for a cancellation.

    Its statements end by their own time-outs, and with it.
    """

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Return what a generator of psycopg's returns; close the session that it is given up in."""
        try:
            return waiting.wait(within(timeout or _PATIENCE, gen), self.pgconn.socket, interval=interval)
        except (psycopg.errors.ConnectionTimeout, KeyboardInterrupt):
            self.close()
            raise


def connect(dsn: str) -> psycopg.Connection[Any]:
    """Return a session in autocommit.

    Its text comes as bytes: what other sessions sent is in their databases' encodings, not in this one's,
    and ``SQL_ASCII`` makes the server pass it on untouched. Times come as the server's own microseconds.

    Raises `BadConnectionString` or `ServerFailure`.
    """
    given = parse(dsn)
    try:
        connection = _Session.connect(
            dsn,
            autocommit=True,
            application_name=APPLICATION_NAME,
            client_encoding="SQL_ASCII",
            **{name: value for name, value in _PARAMETERS.items() if name not in given},  # type: ignore[arg-type]
        )
    except psycopg.Error as error:
        # psycopg leaves what it gave up open for as long as the error's frames know of it.
        traceback.clear_frames(error.__traceback__)
        if isinstance(error, psycopg.errors.ConnectionTimeout) and answers(dsn):
            raise login_hangs(where(dsn)) from None
        raise failure_of(error, f"connect to {where(dsn)}", connecting=True) from None
    except UnicodeError:  # psycopg looks the host up itself
        raise ServerFailure(
            f"cannot connect to {where(dsn)}: that is no name of a host; correct the connection string",
            "connect",
        ) from None
    adapters = connection.adapters
    for raw in ("text", "name", adapters.types["int8"].array_oid):
        adapters.register_loader(raw, ByteaBinaryLoader)
    adapters.register_loader("timestamptz", Int8BinaryLoader)
    return connection


def parse(dsn: str) -> Mapping[str, Any]:
    """Return the parameters of a connection string, a URL or ``key=value`` pairs."""
    try:
        parameters = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError as error:
        raise BadConnectionString(
            f"the connection string cannot be read: {bad_conninfo(error)}; "
            "write postgresql://user@host:port/database or host=… port=… dbname=…"
        ) from None
    except UnicodeError:
        raise BadConnectionString(
            "the connection string cannot be read: it is not UTF-8; write it anew"
        ) from None
    # Of user:pa/ss@host, a URL whose password is not encoded, libpq takes "pa" for the port, and of
    # user:12/ss@host the rest for the database.
    if (
        _NO_PORT.search(str(parameters.get("port") or ""))
        or _NO_HOST.search(str(parameters.get("host") or ""))
        or ("@" in str(parameters.get("dbname") or "") and "://" in dsn and "%40" not in dsn)
    ):
        raise BadConnectionString(
            "the connection string cannot be read: it has no host or no port where they belong; in a URL, "
            "write / @ : ? # of a password as %2F %40 %3A %3F %23"
        )
    return parameters


def where(dsn: str) -> str:
    """Return host:port that a connection string leads to, or the directory of its socket.

    The name of a service stands for what its file says.
    """
    defaults = {
        option.keyword.decode(): option.val.decode() for option in pq.Conninfo.get_defaults() if option.val
    }
    parameters = {**defaults, **{name: str(value) for name, value in parse(dsn).items()}}
    host = parameters.get("host") or parameters.get("hostaddr") or os.environ.get("PGHOSTADDR")
    if not host and "service" in parameters:
        return f"service {parameters['service']}"
    return address(host or _default_host(), parameters.get("port") or "5432")


def _default_host() -> str:
    """Return where libpq connects when no host is named: mostly a directory, which was built into it."""
    # It fills that in, and then refuses such a mode before it connects.
    refused = pq.PGconn.connect_start(b"host='' sslmode=unheard-of")
    return refused.host.decode()


def address(host: str, port: str | int) -> str:
    """Return host:port, or the directory of a socket."""
    if host.startswith(("/", "@")):
        return host
    hosts, ports = host.split(","), str(port).split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    return ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in zip(hosts, ports, strict=False))

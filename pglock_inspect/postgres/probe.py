"""Whether a server is there at all, where a login hangs."""

from __future__ import annotations

import os
import select
import socket
import struct

from psycopg import pq

_PATIENCE = 2.0  # seconds, for the connection and for the answer
_SSL_REQUEST = struct.pack("!ii", 8, 80_877_103)


def answers(dsn: str) -> bool:
    """Return whether what a connection string leads to says if it speaks TLS.

    A server says so before it looks at a catalog: also while each login waits for a lock on one. A host that
    is gone, a network that drops packets or a server that is stopped says nothing.
    """
    connection = pq.PGconn.connect_start(dsn.encode())
    try:
        if not _reached(connection):
            return False
        with socket.socket(fileno=os.dup(connection.socket)) as line:
            line.settimeout(_PATIENCE)
            line.sendall(_SSL_REQUEST)
            return line.recv(1) in {b"S", b"N"}
    except OSError:
        return False
    finally:
        connection.finish()


def _reached(connection: pq.abc.PGconn) -> bool:
    """Have libpq connect, to the first host that takes it; nothing has been sent then."""
    while connection.status == pq.ConnStatus.STARTED:
        writable = select.poll()
        writable.register(connection.socket, select.POLLOUT)
        if not writable.poll(_PATIENCE * 1000):
            return False
        connection.connect_poll()
    return connection.status == pq.ConnStatus.MADE

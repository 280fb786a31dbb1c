"""``python -m pglock_inspect.serve.health``: exit code 0 if the exporter in this container answers (Linux).

Where it listens, and whether with TLS, is found out: its options are not known here.
"""

from __future__ import annotations

import socket
import ssl
import sys
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LISTENING = "0A"  # a state, as /proc/net/tcp has it
_PATIENCE = 2.0  # seconds


def listening() -> Iterator[tuple[str, int]]:
    """Yield the addresses where processes listen that this user may look at."""
    theirs = set(_opened())
    for family, table in ((socket.AF_INET, Path("/proc/net/tcp")), (socket.AF_INET6, Path("/proc/net/tcp6"))):
        if table.exists():
            for row in table.read_text("ascii").splitlines()[1:]:
                _, address, _, state, _, _, _, _, _, inode, *_ = row.split()
                if state == _LISTENING and f"socket:[{inode}]" in theirs:
                    host, port = address.split(":")
                    yield socket.inet_ntop(family, _in_network_order(bytes.fromhex(host))), int(port, 16)


def answers(host: str, port: int) -> bool:
    """Whether an exporter answers there."""
    itself = ssl.SSLContext(
        ssl.PROTOCOL_TLS_CLIENT
    )  # it is asked under an address: no certificate is for that
    itself.check_hostname = False
    itself.verify_mode = ssl.CERT_NONE
    for connection in (
        HTTPConnection(host, port, timeout=_PATIENCE),
        HTTPSConnection(host, port, timeout=_PATIENCE, context=itself),
    ):
        with closing(connection), suppress(OSError, HTTPException):
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:  # noqa: PLR2004 - it says what it is
                return True
    return False


def _opened() -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # closed meanwhile
            yield str(file.readlink())


def _in_network_order(words: bytes) -> bytes:
    """Turn each 32 bits, which the kernel prints as the processor has them."""
    step = -1 if sys.byteorder == "little" else 1
    return b"".join(words[start : start + 4][::step] for start in range(0, len(words), 4))


if __name__ == "__main__":
    sys.exit(not any(answers(*address) for address in listening()))

from __future__ import annotations

import socket

from pglock_inspect.config.address import parse_address
from pglock_inspect.serve.server import listen_on


def test_no_answer_waits_for_an_acknowledgement() -> None:
    (listening,) = listen_on(parse_address("127.0.0.1:0"))
    with listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

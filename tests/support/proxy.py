"""A TCP proxy in front of a server, which counts round trips, and can go silent or cut its connections."""

from __future__ import annotations

import selectors
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

if TYPE_CHECKING:
    from collections.abc import Iterator


class Proxy:
    """`round_trips` counts how often a client speaks up again after the server has answered.

    A `frozen` proxy forwards nothing; it freezes by itself once `frozen_after` round trips have begun. Each
    piece of data takes `delay` seconds more.
    """

    round_trips = 0
    frozen = False
    delay = 0.0
    frozen_after = sys.maxsize

    def __init__(self, dsn: str) -> None:
        server = conninfo_to_dict(dsn)
        self._server = (str(server["host"]), int(server["port"] or 5432))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self._listener.getsockname()[1])
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._closing = False
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """Reset all connections, on both sides."""
        for pair in self._pairs:
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._pairs.clear()

    @contextmanager
    def counting(self, round_trips: int) -> Iterator[None]:
        """Expect so many round trips during the block."""
        before = self.round_trips
        yield
        counted = self.round_trips - before
        assert counted == round_trips, f"{counted} instead of {round_trips} round trips"

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._server)
            except OSError:  # it is down
                client.close()
                continue
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs.append((client, server))
            self._threads.append(threading.Thread(target=self._forward, args=[client, server], daemon=True))
            self._threads[-1].start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        answered = True
        with selectors.DefaultSelector() as selector, client, server:
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in selector.select(0.05):
                    if self.frozen:
                        threading.Event().wait(0.05)
                        continue
                    source, target = key.fileobj, key.data
                    assert isinstance(source, socket.socket)
                    try:
                        data = source.recv(1 << 16)
                        time.sleep(self.delay)
                        target.sendall(data)
                    except OSError:
                        data = b""
                    if not data:
                        return
                    if source is client:
                        self.round_trips += answered
                        self.frozen |= self.round_trips >= self.frozen_after
                    answered = source is server
                if self._closing:
                    return

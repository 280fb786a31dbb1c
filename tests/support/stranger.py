"""A server that speaks PostgreSQL's protocol and is something else; just enough of it for one client's libpq.

Messages are those of https://www.postgresql.org/docs/current/protocol-message-formats.html.
"""

from __future__ import annotations

import socketserver
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answer = Callable[[str], "Rows | Error"]

_ENCRYPTION_REQUESTS = {80877103, 80877104}  # SSL and GSSAPI
_OIDS: dict[type, int] = {str: 25, int: 23, bool: 16}


class Rows(NamedTuple):
    """One row of text, numbers and truths; `values` None for no row at all."""

    values: tuple[str | int | None, ...] | None


class Error(NamedTuple):
    code: str
    text: str


class _Client(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        parameters = self._startup()
        if parameters is None:
            return
        if refusal := self.server.refuse(parameters):
            self._error("FATAL", refusal)
            return
        self._send(b"R", struct.pack("!i", 0))
        for name, value in (("server_version", "9.5.0"), ("client_encoding", "UTF8")):
            self._send(b"S", _string(name) + _string(value))
        self._send(b"K", struct.pack("!ii", 17, 42))
        self._send(b"Z", b"I")
        self._answer_all()

    def _startup(self) -> dict[str, str] | None:
        while True:
            head = self.rfile.read(8)
            if len(head) < 8:
                return None
            length, code = struct.unpack("!ii", head)
            rest = self.rfile.read(length - 8)
            if code in _ENCRYPTION_REQUESTS:
                self.wfile.write(b"N")
                continue
            words = rest.decode().split("\0")
            return dict(zip(words[::2], words[1::2], strict=False))

    def _answer_all(self) -> None:
        statement, failed = "", False
        while kind := self.rfile.read(1):
            (length,) = struct.unpack("!i", self.rfile.read(4))
            body = self.rfile.read(length - 4)
            if kind == b"X":
                return
            if kind == b"S":
                failed = False
                self._send(b"Z", b"I")
            elif kind == b"Q":
                statement = body[:-1].decode()
                self._describe(statement)
                self._execute(statement)
                self._send(b"Z", b"I")
            elif not failed:
                if kind == b"P":
                    statement = body.split(b"\0")[1].decode()
                failed = not self._extended(kind, statement)

    def _extended(self, kind: bytes, statement: str) -> bool:
        """Answer a message of the extended protocol; return False after an error."""
        if kind == b"P":
            answer = self.server.answer(statement)
            if isinstance(answer, Error):
                self._error("ERROR", answer)
                return False
            self._send(b"1")
        elif kind == b"B":
            self._send(b"2")
        elif kind == b"D":
            self._describe(statement)
        elif kind == b"E":
            self._execute(statement)
        return True

    def _describe(self, statement: str) -> None:
        answer = self.server.answer(statement)
        if isinstance(answer, Rows) and answer.values:
            fields = [
                _string("column") + struct.pack("!ihihih", 0, 0, _OIDS.get(type(value), 25), -1, -1, 1)
                for value in answer.values
            ]
            self._send(b"T", struct.pack("!h", len(fields)) + b"".join(fields))
        elif isinstance(answer, Rows):
            self._send(b"T", struct.pack("!h", 0))

    def _execute(self, statement: str) -> None:
        answer = self.server.answer(statement)
        if isinstance(answer, Error):
            self._error("ERROR", answer)
            return
        if answer.values:
            values = b"".join(map(_value, answer.values))
            self._send(b"D", struct.pack("!h", len(answer.values)) + values)
        self._send(b"C", _string("SELECT 1"))

    def _error(self, severity: str, error: Error) -> None:
        fields = {"S": severity, "V": severity, "C": error.code, "M": error.text}
        self._send(b"E", b"".join(name.encode() + _string(text) for name, text in fields.items()) + b"\0")

    def _send(self, kind: bytes, body: bytes = b"") -> None:
        self.wfile.write(kind + struct.pack("!i", len(body) + 4) + body)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, answer: Answer, refuse: Callable[[dict[str, str]], Error | None]) -> None:
        self.answer, self.refuse = answer, refuse
        super().__init__(("127.0.0.1", 0), _Client)


def _string(text: str) -> bytes:
    return text.encode() + b"\0"


def _value(value: str | int | None) -> bytes:
    """A value in binary, as whoever asks here wants it."""
    if value is None:
        return struct.pack("!i", -1)
    if isinstance(value, bool):
        raw = bytes([value])
    else:
        raw = struct.pack("!i", value) if isinstance(value, int) else value.encode()
    return struct.pack("!i", len(raw)) + raw


@contextmanager
def stranger(
    answer: Answer, refuse: Callable[[dict[str, str]], Error | None] = lambda _: None
) -> Iterator[str]:
    """Run one; yields its connection string. `refuse` gets what a client asks for at its login."""
    with _Server(answer, refuse) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"host=127.0.0.1 port={server.server_address[1]} user=app dbname=app"
        finally:
            server.shutdown()
            thread.join()

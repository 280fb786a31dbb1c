"""The web server: where it listens, what it puts up with, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from pglock_inspect.errors import CannotListen
from pglock_inspect.serve.connection import BoundedConnection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from starlette.types import ASGIApp

    from pglock_inspect.config.address import Address
    from pglock_inspect.serve.tls import Certificate

_HEADERS = [
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
]
_MOST_CONNECTIONS = 500
_BACKLOG = 1024
_DESCRIPTORS = 8192  # more than those connections, and those that wait for an answer or their end
_LONGEST_HEADERS = 16 * 1024  # bytes
_IDLE_SECONDS = 65  # more than between two scrapes
_RENEWED_EVERY = 30.0  # seconds
_GRACE_SECONDS = 1  # for responses under way


class _Server(uvicorn.Server):
    """A server that leaves signals to `serve`: uvicorn ends the process with them."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen_on(address: Address) -> list[socket.socket]:
    """Return a socket for each address that a host's name means; ``::`` is every IPv4 address too.

    Raises `CannotListen`.
    """
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, place in dict.fromkeys(found):
            both = place[0] == "::" and socket.has_dualstack_ipv6()
            sockets.append(socket.create_server(place, family=family, backlog=_BACKLOG, dualstack_ipv6=both))
            # Connections inherit it; asyncio only sets it where the protocol is named. Without it, a body
            # waits until the client has acknowledged the headers: 40 ms.
            sockets[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, UnicodeError) as error:
        for one in sockets:
            one.close()
        raise CannotListen(
            f"cannot listen on {address}: {_reason(error)}; name another with --listen"
        ) from None
    return sockets


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror) or not isinstance(error, OSError) or not error.errno:
        return "no host has this name"
    return os.strerror(error.errno)  # without what Python adds


def run(
    app: ASGIApp,
    sockets: list[socket.socket],
    tell: Callable[[str], None],
    certificate: Certificate | None = None,
) -> None:
    """Answer requests until SIGTERM or SIGINT. ``tell`` is called with a sentence on what nobody foresaw."""
    _allow_descriptors()
    for talkative in ("asyncio", "uvicorn"):  # of what a client does wrong
        logging.getLogger(talkative).addHandler(logging.NullHandler())
    config = uvicorn.Config(
        app,
        loop="asyncio",
        http=BoundedConnection,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        headers=_HEADERS,
        limit_concurrency=_MOST_CONNECTIONS,
        h11_max_incomplete_event_size=_LONGEST_HEADERS,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    config.load()
    config.ssl = certificate.context if certificate else None
    asyncio.run(_serve(_Server(config), sockets, tell, certificate))


def _allow_descriptors() -> None:
    """Allow this process as many open files as it needs: often that is 1,024 at first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _serve(
    server: uvicorn.Server,
    sockets: list[socket.socket],
    tell: Callable[[str], None],
    certificate: Certificate | None,
) -> None:
    loop = asyncio.get_running_loop()
    if not os.environ.get("PGLOCK_DEBUG"):
        loop.set_exception_handler(_teller(server, tell))
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, setattr, server, "should_exit", True)  # noqa: FBT003
    renewal = asyncio.create_task(_renew(certificate, tell)) if certificate else None
    await server.serve(sockets)
    if renewal:
        renewal.cancel()


async def _renew(certificate: Certificate, tell: Callable[[str], None]) -> None:
    """Show a renewed certificate; say so, once, where it cannot be used."""
    told = None
    while True:
        await asyncio.sleep(_RENEWED_EVERY)
        try:
            certificate.renew()
        except CannotListen as error:
            if str(error) != told:
                tell(str(error))
            told = str(error)
        else:
            told = None


def _teller(
    server: uvicorn.Server, tell: Callable[[str], None]
) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return what tells of errors that nobody handled: not the same again and again, and not at the end."""
    told = ""

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal told
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            sentence = "there are more connections than files that may be open: raise that limit (ulimit -n)"
        else:
            sentence = f"something unforeseen went wrong ({type(error).__name__}): PGLOCK_DEBUG=1 shows where"
        if sentence != told and not server.should_exit:
            tell(sentence)
        told = sentence

    return handle

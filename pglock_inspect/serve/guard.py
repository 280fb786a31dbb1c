"""Who is answered at all: requests to this host, from those who know a password."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pglock_inspect.serve.passwords import Passwords

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""What is answered to those without a password too: it says no more than that there is an exporter."""

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})

_PORT = re.compile(r":\d*$", re.ASCII)


class Guard:
    """Middleware. ``hosts`` are the names that a request may call this host by, None for any.

    A browser that is told that ``evil.example`` is 127.0.0.1 sends requests of that page here, and under
    that name.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: Collection[str] | None = None, passwords: Passwords | None = None
    ) -> None:
        self._app = app
        self._hosts = hosts
        self._passwords = passwords

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application answer it."""
        refusal = await self._refusal(Headers(scope=scope), scope["path"])
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, headers: Headers, path: str) -> Response | None:
        host = headers.get("host")
        if self._hosts is not None and host and _PORT.sub("", host.lower()) not in self._hosts:
            return PlainTextResponse(
                "no such host here: ask for localhost, or let it listen elsewhere\n", 421
            )
        if self._passwords is None or path in OPEN_PATHS:
            return None
        if await self._passwords.admit(headers.get("authorization", "")):
            return None
        return PlainTextResponse(
            "a name and a password are needed\n", 401, {"WWW-Authenticate": 'Basic realm="pglock-inspect"'}
        )

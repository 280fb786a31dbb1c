"""A connection of the web server that is not kept open by who sends or reads too slowly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

_REQUEST_SECONDS = 10.0  # from the connection to the end of its first request's headers
_RESPONSE_SECONDS = 90.0  # from there until the response is out, and the next request came


class BoundedConnection(H11Protocol):
    """uvicorn's own protocol, whose time-out only counts where nothing at all is sent after a response."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._give_up_in(_REQUEST_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self._give_up_in(_RESPONSE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._give_up_in(None)
        super().connection_lost(exc)

    def _give_up_in(self, seconds: float | None) -> None:
        if self._deadline:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.transport.abort) if seconds else None

"""What is answered to a request: metrics, health, and the report as JSON and as a page."""

from __future__ import annotations

import gzip
import time
from functools import partial
from typing import TYPE_CHECKING

from h11 import LocalProtocolError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pglock_inspect.present.document import report_document
from pglock_inspect.present.json import dump
from pglock_inspect.present.page import ASSETS, CONTENT_SECURITY_POLICY, render
from pglock_inspect.present.page.assets import VERSION
from pglock_inspect.serve.exposition import exposition, negotiate
from pglock_inspect.serve.once import Once

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from starlette.middleware import Middleware
    from starlette.requests import Request

    from pglock_inspect.serve.fleet import Fleet
    from pglock_inspect.serve.target import Latest

_COMPRESSION = 5  # of 9; more takes longer than it saves
_FRESH = {"Cache-Control": "no-store"}
_FOR_GOOD = {"Cache-Control": "max-age=31536000, immutable"}


class Site:
    """The answers about a fleet. The text of queries is in none, unless ``queries``.

    ``tell`` is called with a sentence on what nobody foresaw.
    """

    def __init__(self, fleet: Fleet, tell: Callable[[str], None], *, queries: bool = False) -> None:
        self._fleet = fleet
        self._tell = tell
        self._queries = queries
        self._once = Once()

    def app(self, middleware: Sequence[Middleware] = ()) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/", self.page),
                Route("/assets/{name}", self.asset),
                Route("/metrics", self.metrics),
                Route("/probe", self.probe),
                Route("/api/v1/report", self.report),
                Route("/healthz", self.healthz),
                Route("/readyz", self.readyz),
            ],
            middleware=middleware,
            exception_handlers={Exception: self._failed},
        )

    async def page(self, request: Request) -> Response:
        """Answer with the page of all targets, or of one."""
        target, now = request.query_params.get("target"), time.monotonic()
        make = partial(self._page, now=now)
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        }
        return await self._made(request, "page", target, make, headers=headers, version=int(now))

    async def asset(self, request: Request) -> Response:
        """Answer with a file that the page asks for."""
        try:
            content, media_type = ASSETS[request.path_params["name"]]
        except KeyError:
            raise HTTPException(404) from None
        headers = _FOR_GOOD if request.url.query == VERSION else _FRESH
        return Response(content, headers={"Content-Type": media_type, **headers})

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics of all targets."""
        return await self._metrics(request, None)

    async def probe(self, request: Request) -> Response:
        """Answer with the metrics of one target."""
        target = request.query_params.get("target")
        if target is None:
            raise HTTPException(400, "which target? ask for /probe?target=NAME")
        return await self._metrics(request, target)

    async def report(self, request: Request) -> Response:
        """Answer with the document of one target, or of all: an array where there are several."""
        target = request.query_params.get("target")
        return await self._made(
            request, "report", target, self._document, headers={"Content-Type": "application/json"}
        )

    async def healthz(self, _: Request) -> Response:
        """Answer that the process lives."""
        return PlainTextResponse("the exporter runs\n", headers=_FRESH)

    async def readyz(self, _: Request) -> Response:
        """Answer whether there is anything new to show."""
        fresh, targets = self._fleet.fresh, len(self._fleet.targets)
        text = f"{fresh} of {targets} targets were read in the last {self._fleet.fresh_for:g} s\n"
        return PlainTextResponse(text, 200 if fresh else 503, _FRESH)

    async def _failed(self, request: Request, error: Exception) -> Response:
        if not isinstance(error, LocalProtocolError):  # the client broke off, by what is no HTTP
            self._tell(f"{request.url.path} failed ({type(error).__name__}): PGLOCK_DEBUG=1 shows where")
        return PlainTextResponse("something unforeseen went wrong\n", 500)

    async def _metrics(self, request: Request, target: str | None) -> Response:
        format_ = negotiate(request.headers.get("accept", ""))
        make = partial(exposition, format_=format_)
        headers = {"Content-Type": format_.content_type}
        return await self._made(request, format_.content_type, target, make, headers=headers)

    async def _made(
        self,
        request: Request,
        what: str,
        target: str | None,
        make: Callable[[Sequence[Latest]], bytes],
        *,
        headers: dict[str, str],
        version: Hashable = None,
    ) -> Response:
        """Answer with what ``make`` makes of the latest reports, unless it was made of them already."""
        try:
            latest = self._fleet.latest(target)
        except KeyError:
            raise HTTPException(404, "there is no such target: ask for one that is configured") from None
        compressed = _takes_gzip(request.headers.get("accept-encoding", ""))
        if compressed:
            headers["Content-Encoding"] = "gzip"
        body = await self._once.get(
            (what, target, compressed),
            (version, *(each.serial for each in latest)),
            lambda: _compressed(make(latest)) if compressed else make(latest),
        )
        return Response(body, headers={**headers, **_FRESH, "Vary": "Accept, Accept-Encoding"})

    def _document(self, latest: Sequence[Latest]) -> bytes:
        documents = [report_document(each.report, queries=self._queries) for each in latest]
        return dump(documents[0] if len(documents) == 1 else documents).encode("ascii")

    def _page(self, latest: Sequence[Latest], *, now: float) -> bytes:
        return render(
            [each.report for each in latest],
            queries=self._queries,
            ages=[max(0.0, now - each.came_at) for each in latest],
            interval=self._fleet.interval,
            targets=len(self._fleet.targets),
        ).encode()


def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, _COMPRESSION, mtime=0)


def _takes_gzip(accept_encoding: str) -> bool:
    """Whether an ``Accept-Encoding`` names gzip, and not to refuse it."""
    for offer in accept_encoding.lower().split(","):
        coding, _, quality = offer.partition(";")
        if coding.strip() == "gzip":
            return quality.replace(" ", "").rstrip("0").rstrip(".") != "q="
    return False

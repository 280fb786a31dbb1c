"""What is answered to a request: metrics, health, and the report as JSON and as a page."""

from __future__ import annotations

import gzip
from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from pglock_inspect.present.document import report_document
from pglock_inspect.present.json import dump
from pglock_inspect.serve.exposition import exposition, negotiate
from pglock_inspect.serve.once import Once

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from starlette.middleware import Middleware
    from starlette.requests import Request

    from pglock_inspect.serve.fleet import Fleet
    from pglock_inspect.serve.target import Latest

_COMPRESSION = 5  # of 9; more takes longer than it saves


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
                Route("/metrics", self.metrics),
                Route("/probe", self.probe),
                Route("/healthz", self.healthz),
                Route("/readyz", self.readyz),
                Route("/api/v1/report", self.report),
            ],
            middleware=middleware,
            exception_handlers={Exception: self._failed},
        )

    async def metrics(self, request: Request) -> Response:
        """Answer with the metrics of all targets."""
        return await self._metrics(request, None)

    async def probe(self, request: Request) -> Response:
        """Answer with the metrics of one target."""
        target = request.query_params.get("target")
        if target is None:
            raise HTTPException(400, "which target? ask for /probe?target=NAME")
        return await self._metrics(request, target)

    async def healthz(self, _: Request) -> Response:
        """Answer that the process lives."""
        return PlainTextResponse("the exporter runs\n")

    async def readyz(self, _: Request) -> Response:
        """Answer whether there is anything new to show."""
        fresh, targets = self._fleet.fresh, len(self._fleet.targets)
        text = f"{fresh} of {targets} targets were read in the last {self._fleet.fresh_for:g} s\n"
        return PlainTextResponse(text, 200 if fresh else 503)

    async def report(self, request: Request) -> Response:
        """Answer with the document of one target, or of all: an array where there are several."""
        target = request.query_params.get("target")
        return await self._made(
            request, ("report", target), target, partial(_document, self._queries), "application/json"
        )

    async def _failed(self, request: Request, error: Exception) -> Response:
        self._tell(f"{request.url.path} failed ({type(error).__name__}): tell the maintainers")
        return PlainTextResponse("something unforeseen went wrong\n", 500)

    async def _metrics(self, request: Request, target: str | None) -> Response:
        format_ = negotiate(request.headers.get("accept", ""))
        make = partial(exposition, format_=format_)
        return await self._made(
            request, ("metrics", target, format_.content_type), target, make, format_.content_type
        )

    async def _made(
        self,
        request: Request,
        what: Hashable,
        target: str | None,
        make: Callable[[Sequence[Latest]], bytes],
        content_type: str,
    ) -> Response:
        try:
            latest = self._fleet.latest(target)
        except KeyError:
            raise HTTPException(404, "there is no such target: ask for one that is configured") from None
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if _takes_gzip(request.headers.get("accept-encoding", "")):
            headers["Content-Encoding"] = "gzip"
            body = await self._once.get((what, "gzip"), latest, lambda latest: _compressed(make(latest)))
        else:
            body = await self._once.get(what, latest, make)
        return Response(body, headers=headers)


def _document(queries: bool, latest: Sequence[Latest]) -> bytes:  # noqa: FBT001
    documents = [report_document(each.report, queries=queries) for each in latest]
    return dump(documents[0] if len(documents) == 1 else documents).encode("ascii")


def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, _COMPRESSION, mtime=0)


def _takes_gzip(accept_encoding: str) -> bool:
    """Whether an ``Accept-Encoding`` names gzip, and not to refuse it."""
    for offer in accept_encoding.lower().split(","):
        coding, _, quality = offer.partition(";")
        if coding.strip() == "gzip":
            return quality.replace(" ", "").rstrip("0").rstrip(".") != "q="
    return False

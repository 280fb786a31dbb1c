"""Metrics as Prometheus reads them, each target's made once per report and then put together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.exposition import choose_encoder

from pglock_inspect.present.prometheus import Reports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from prometheus_client.registry import Collector

    from pglock_inspect.serve.target import Latest

_FAMILY = re.compile(rb"^(?=# HELP )", re.MULTILINE)
_HEAD = re.compile(rb"(?:# .*\n)+")
_END = b"# EOF\n"
_VERSIONS = re.compile(r"version=(?:0\.0\.4|1\.0\.0)\b(?!\.)")
_OPENMETRICS = "application/openmetrics-text"


class Format(NamedTuple):
    """A text format that Prometheus reads."""

    content_type: str
    encode: Callable[[Collector], bytes]


def negotiate(accept: str) -> Format:
    """Return the format for an ``Accept`` header: of few, whatever the header asks for."""
    try:
        encode, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        encode, content_type = choose_encoder("")
    if not _VERSIONS.search(content_type):
        encode, content_type = choose_encoder(_OPENMETRICS)
    return Format(content_type, encode)


def exposition(latest: Sequence[Latest], format_: Format) -> bytes:
    """Return the metrics of some targets: each family once, as the formats demand."""
    pages = [_families(each, format_) for each in latest]
    body = b"".join(_put_together(versions) for versions in zip(*pages, strict=True))
    return body + (_END if format_.content_type.startswith(_OPENMETRICS) else b"")


def _families(latest: Latest, format_: Format) -> list[bytes]:
    """Return the families of one target's metrics as text."""
    families = latest.made.get(format_.content_type)
    if families is None:
        text = format_.encode(Reports([latest.report], counters=True))
        families = latest.made[format_.content_type] = _FAMILY.split(text.removesuffix(_END))[1:]
    return families


def _put_together(versions: Iterable[bytes]) -> bytes:
    """Return one family of several targets, without repeating what is the same of all."""
    parts: dict[bytes, None] = {}
    for text in versions:
        head = _HEAD.match(text)
        assert head
        parts[head[0]] = None
        parts[text[head.end() :]] = None
    return b"".join(parts)

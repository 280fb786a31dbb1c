"""Metrics as Prometheus reads them, each target's made once per report and then put together."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.exposition import choose_encoder
from prometheus_client.utils import floatToGoString

from pglock_inspect.present.metrics import families

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric

    from pglock_inspect.serve.target import Latest

_HEAD = re.compile(rb"(?:# .*\n)+")
_END = b"# EOF\n"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_VERSIONS = re.compile(r"version=(?:0\.0\.4|1\.0\.0)\b(?!\.)")
_OPENMETRICS = "application/openmetrics-text"


class Format(NamedTuple):
    """A text format that Prometheus reads."""

    content_type: str

    @property
    def openmetrics(self) -> bool:
        """Whether it is the newer one of two."""
        return self.content_type.startswith(_OPENMETRICS)


def negotiate(accept: str) -> Format:
    """Return the format for an ``Accept`` header: of few, whatever the header asks for."""
    try:
        _, content_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        _, content_type = choose_encoder("")
    if not _VERSIONS.search(content_type):
        _, content_type = choose_encoder(_OPENMETRICS)
    return Format(content_type)


def exposition(latest: Sequence[Latest], format_: Format) -> bytes:
    """Return the metrics of some targets: each family once, as the formats demand."""
    pages = [families_of(each, format_) for each in latest]
    body = b"".join(_put_together(versions) for versions in zip(*pages, strict=True))
    return body + (_END if format_.openmetrics else b"")


def families_of(latest: Latest, format_: Format) -> list[bytes]:
    """Return the families of one target's metrics as text."""
    made = latest.made.get(format_.content_type)
    if made is None:
        made = latest.made[format_.content_type] = [
            _text(family, openmetrics=format_.openmetrics)
            for family in families([latest.report], counters=True)
        ]
    return made


def _text(family: Metric, *, openmetrics: bool) -> bytes:
    """Return what the library's encoders print, which look at each label's name and value again each time."""
    name = family.name if openmetrics or family.type != "counter" else f"{family.name}_total"
    lines = [f"# HELP {name} {family.documentation}\n# TYPE {name} {family.type}\n"]
    lines += [
        f"{sample.name}{_labels(*sample.labels.items())} {floatToGoString(sample.value)}\n"  # type: ignore[no-untyped-call]
        for sample in family.samples
    ]
    return "".join(lines).encode()


@lru_cache(maxsize=2**16)
def _labels(*labels: tuple[str, str]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sorted(labels))
    return f"{{{pairs}}}" if pairs else ""


def _put_together(versions: Iterable[bytes]) -> bytes:
    """Return one family of several targets, without repeating what is the same of all."""
    parts: dict[bytes, None] = {}
    for text in versions:
        head = _HEAD.match(text)
        assert head
        parts[head[0]] = None
        parts[text[head.end() :]] = None
    return b"".join(parts)

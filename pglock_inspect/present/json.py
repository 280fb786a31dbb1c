"""JSON: the document of a report, or an array of them where there are several targets.

The text is ASCII: it passes any locale, and no control character of a query reaches a terminal.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from pglock_inspect.present.document import report_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.model import Report
    from pglock_inspect.present.paper import Paper
    from pglock_inspect.present.verdict import Verdict

_NOT_ASCII = re.compile(r"[^\x00-\x7e]+")


def once(reports: Sequence[Report], _: Paper) -> str:
    """Return one poll of all targets, indented for a reader."""
    return _indented([report_document(report) for report in reports])


def stream(polls: Iterable[Sequence[Report]], _: Paper) -> Iterator[str]:
    """Yield each poll as it comes, one document per line."""
    for reports in polls:
        yield "\n".join(dump(report_document(report)) for report in reports)


def judged(verdicts: Sequence[Verdict]) -> str:
    """Return the documents of judged reports, with ``status`` and ``exit_code`` at their ends."""
    return _indented(
        [
            report_document(verdict.report)
            | {"status": verdict.status.name, "exit_code": int(verdict.status)}
            for verdict in verdicts
        ]
    )


def _indented(documents: Sequence[dict[str, Any]]) -> str:
    return dump(documents[0] if len(documents) == 1 else documents, indent=2)


def dump(document: Any, *, indent: int = 0) -> str:  # noqa: ANN401 - whatever msgspec encodes
    """Return a document as JSON in ASCII, on one line unless indented."""
    text = msgspec.json.encode(document).decode()
    if indent:
        text = msgspec.json.format(text, indent=indent)
    return _NOT_ASCII.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1].replace("\x7f", r"\u007f")

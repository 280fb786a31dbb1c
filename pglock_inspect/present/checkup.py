"""What ``doctor`` found, for a person and for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present.cells import pad, width, wrap
from pglock_inspect.present.json import dump
from pglock_inspect.present.spans import width_of
from pglock_inspect.present.text import well_formed
from pglock_inspect.present.verdict import OUTAGES, Status, worst

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.doctor import Check, Grade
    from pglock_inspect.errors import ServerFailure
    from pglock_inspect.model import Severity
    from pglock_inspect.present.paper import Paper
    from pglock_inspect.present.spans import Meaning, Span

SCHEMA_VERSION = 1

_STATUSES: dict[Grade, Status] = {"ok": Status.OK, "warning": Status.WARNING, "failure": Status.CRITICAL}
_SEVERITIES: dict[Grade, Severity | None] = {"ok": None, "warning": "warning", "failure": "critical"}
_MEANINGS: dict[Grade, Meaning] = {"ok": "good", "warning": "warning", "failure": "critical"}
_GAP = "  "
_LEAST = 30  # cells of a text beside its name
_GRADES = max(map(width, _STATUSES))


class CheckUp(NamedTuple):
    """The checks of one target, or why there are none."""

    target: str
    checks: tuple[Check, ...] = ()
    failure: ServerFailure | None = None

    @property
    def status(self) -> Status:
        """The worst of all checks."""
        if self.failure:
            return Status.CRITICAL if self.failure.reason in OUTAGES else Status.UNKNOWN
        return worst(_STATUSES[check.grade] for check in self.checks)


def as_json(checkups: Sequence[CheckUp]) -> str:
    """Return a document per target, in an array where there are several."""
    documents = [_document(checkup) for checkup in checkups]
    return dump(documents[0] if len(documents) == 1 else documents, indent=2)


def _document(checkup: CheckUp) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "target": well_formed(checkup.target),
        "status": checkup.status.name,
        "exit_code": int(checkup.status),
        "checks": [
            {
                "check": check.name,
                "grade": check.grade,
                "value": well_formed(check.value),
                "fix": check.fix and well_formed(check.fix),
            }
            for check in checkup.checks
        ],
        **({"error": well_formed(str(checkup.failure))} if checkup.failure else {}),
    }


def as_text(checkups: Sequence[CheckUp], paper: Paper) -> str:
    """Return a line per check, and one with what to do where there is something."""
    return "\n\n".join("\n".join(_lines(checkup, paper)) for checkup in checkups)


def _lines(checkup: CheckUp, paper: Paper) -> Iterator[str]:
    yield paper.line([(paper.look.text(checkup.target), "strong")])
    if checkup.failure:
        yield from _wrapped(paper.look.text(str(checkup.failure)), _GAP, paper)
    names = max((width(check.name) for check in checkup.checks), default=0)
    for check in checkup.checks:
        yield from _check(check, pad(check.name, names), paper)


def _check(check: Check, name: str, paper: Paper) -> Iterator[str]:
    look = paper.look
    grade = f"{look.glyphs.of(_SEVERITIES[check.grade])} {pad(check.grade, _GRADES)}{_GAP}"
    head: list[Span] = [(grade, _MEANINGS[check.grade]), (name, "text")]
    margin = " " * (width_of(head) + len(_GAP))
    beside = paper.width is None or paper.width - len(margin) >= _LEAST
    if not beside:
        yield paper.line(head)
        margin = _GAP * 2
    for line in _wrapped(look.text(check.value), margin, paper):
        yield paper.line([*head, (line[width_of(head) :], "text")] if beside else [(line, "text")])
        head = [(" " * width_of(head), "text")]
    if check.fix:  # not wrapped: it is there to be copied
        yield paper.line([(f"{margin}do: ", "quiet"), (look.text(check.fix), "text")])


def _wrapped(text: str, margin: str, paper: Paper) -> Iterator[str]:
    lines = [text] if paper.width is None else wrap(text, paper.width - len(margin))
    return (margin + line for line in lines)

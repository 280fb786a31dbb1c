"""What the page says, all of it: the templates only place it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present.page.listings import Frame
from pglock_inspect.present.page.rows import Identities, Mark, mark_of
from pglock_inspect.present.page.target import SILENT, UNREAD, UNREADABLE, WELL, Target, target_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.model import Report

_FEW = 4
_PATIENCE = 5.0  # seconds
_LEAST_REFRESH, _MOST_REFRESH = 1.0, 30.0  # seconds


class Page(NamedTuple):
    """All of it; ``targets`` come the worst first, ``refresh`` is in seconds.

    ``unfold``: they are few, so that all but the healthy ones are shown unfolded. ``of`` is how many there
    are, shown or not.
    """

    mark: Mark
    title: str
    targets: tuple[Target, ...]
    refresh: float
    unfold: bool
    of: int


def page_of(
    reports: Sequence[Report], ages: Sequence[float], *, queries: bool, interval: float, of: int
) -> Page:
    """Return the page of reports, each so many seconds old; one is due every ``interval`` seconds.

    There are so many servers: ``of``.
    """
    number = len(reports) or 1
    frame = Frame(
        jobs=max(12, 1_000 // number),
        findings=max(8, 300 // number),
        locks=max(6, 200 // number),
        queries=queries,
        named=of > 1,
        overdue=1.5 * interval + _PATIENCE,
        identities=Identities(),
    )
    targets = [target_of(report, age, frame) for report, age in zip(reports, ages, strict=True)]
    mark = _overall(targets, reports)
    name = f"{targets[0].name} · " if len(targets) == 1 else ""
    return Page(
        mark=mark,
        title=f"{mark.sign} {mark.word} · {name}pglock-inspect",
        targets=tuple(sorted(targets, key=_urgency)),
        refresh=min(max(interval, _LEAST_REFRESH), _MOST_REFRESH),
        unfold=number <= _FEW,
        of=of,
    )


def _urgency(target: Target) -> int:
    """Return where a server stands; among equals, the order is the configured one and never changes."""
    if target.mark == UNREADABLE:
        return 0
    return {"critical": 1, "warning": 2, "quiet": 3}.get(target.mark.meaning, 4)


def _overall(targets: Sequence[Target], reports: Sequence[Report]) -> Mark:
    found = Counter(finding.severity for report in reports for finding in report.findings)
    states = Counter(target.mark for target in targets)
    troubles = [
        (states[UNREADABLE], UNREADABLE),
        (found["critical"], mark_of("critical")),
        (states[SILENT], SILENT),
        (found["warning"], mark_of("warning", "warning" if found["warning"] == 1 else "warnings")),
        (states[UNREAD], UNREAD),
    ]
    words, marks = [], []
    for number, mark in troubles:
        if number:
            of_the_server = mark in {UNREADABLE, SILENT, UNREAD}
            words.append(mark.word if of_the_server and len(targets) == 1 else f"{number:,} {mark.word}")
            marks.append(mark)
    if not marks:
        return WELL._replace(word="all is well")
    return marks[0]._replace(word=", ".join(words))

"""A table of locks that fits its paper, and what was found below it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from pglock_inspect.model import SEVERITIES, to_datetime
from pglock_inspect.present import columns
from pglock_inspect.present.cells import wrap
from pglock_inspect.present.columns import label
from pglock_inspect.present.spans import fit, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Finding, Lock, Report, Severity
    from pglock_inspect.present.columns import Column
    from pglock_inspect.present.paper import Paper
    from pglock_inspect.present.spans import Span

_GAP = "  "
_RANK: dict[Severity | None, int] = {None: 0} | {name: rank for rank, name in enumerate(SEVERITIES, start=1)}

_FROM_LEFT = (
    *(columns.MARK, columns.JOB, columns.STATE, columns.FOR, columns.MAX, columns.WAITERS, columns.PID),
    *(columns.BLOCKED_BY, columns.SESSION, columns.USER, columns.APPLICATION, columns.CLIENT),
    *(columns.DATABASE, columns.KEY, columns.MODE, columns.EVIDENCE, columns.QUERY),
)
_BY_IMPORTANCE = (
    *(columns.MARK, columns.JOB, columns.STATE, columns.FOR, columns.PID, columns.WAITERS, columns.MAX),
    *(columns.BLOCKED_BY, columns.APPLICATION, columns.SESSION, columns.USER, columns.DATABASE),
    *(columns.EVIDENCE, columns.QUERY, columns.KEY, columns.CLIENT, columns.MODE),
)
_WORTH_PART_OF_A_NAME = (columns.STATE, columns.FOR)
_SHORTEST_NAME = 10
_ENDLESS = 200  # cells of a column where a line has no end


def once(reports: Sequence[Report], paper: Paper) -> str:
    """Return one poll of all targets, one table below the other."""
    return "\n\n".join("\n".join(_lines(report, paper)) for report in reports)


def stream(polls: Iterable[Sequence[Report]], paper: Paper) -> Iterator[str]:
    """Yield each poll as it comes: in place of the last where the paper can be wiped, else below it."""
    for reports in polls:
        yield paper.clear + once(reports, paper) + ("" if paper.clears else "\n")


def _lines(report: Report, paper: Paper) -> Iterator[str]:
    yield from _heading(report, paper)
    if report.server is None:
        return
    if report.locks:
        yield ""
        yield from _table(arrange(report.locks), paper)
    if report.findings:
        yield ""
    for finding in report.findings:
        yield from _finding(finding, paper)


def _heading(report: Report, paper: Paper) -> Iterator[str]:
    look, server = paper.look, report.server
    time = f"{to_datetime(report.taken_at):%Y-%m-%d %H:%M:%S} UTC"
    target = look.text(report.target)
    if server is None:
        yield from _wrapped((target, "strong"), f"  {time}  {look.text(report.error or '')}", paper)
        return
    waiting = sum(not lock.granted for lock in report.locks)
    counts = f"{len(report.locks) - waiting} held, {waiting} waiting"
    place = f"{look.text(server.database)}  PostgreSQL {look.text(server.version)}"
    standby = "  standby" if server.in_recovery else ""
    yield from _wrapped((target, "strong"), f"  {place}{standby}  {time}  {counts}", paper)


def _table(locks: Sequence[Lock], paper: Paper) -> Iterator[str]:
    layout = lay_out(locks, paper)
    ellipsis = paper.look.glyphs.ellipsis

    def line(cells: Iterable[tuple[Column, int, list[Span]]]) -> str:
        gap: Span = (_GAP, "text")
        fitted = ([gap, *fit(spans, width, ellipsis, right=column.right)] for column, width, spans in cells)
        return paper.line([*chain.from_iterable(fitted)][1:])

    yield line((column, width, [(column.title, "quiet")]) for column, width in layout)
    for lock in locks:
        yield line((column, width, column.cell(lock, width, paper.look)) for column, width in layout)


def lay_out(locks: Sequence[Lock], paper: Paper) -> list[tuple[Column, int]]:
    """Return the columns that the paper has room for, from left to right, each with its width.

    A column takes what its longest cell needs, as far as there is room; one that says nothing is left out.
    """
    needed = {column: _needed(column, locks, paper) for column in _BY_IMPORTANCE}
    useful = [column for column in _BY_IMPORTANCE if needed[column]]
    if paper.width is None:
        return [(column, needed[column]) for column in _FROM_LEFT if needed[column]]
    chosen: dict[Column, int] = {}
    room = paper.width + len(_GAP)
    for column in useful:
        least = min(column.width, needed[column])
        lacking = least + len(_GAP) - room
        if lacking > 0 and column is columns.JOB:
            least = max(1, least - lacking)
        elif lacking > 0:
            if column not in _WORTH_PART_OF_A_NAME or chosen.get(columns.JOB, 0) - lacking < _SHORTEST_NAME:
                break
            chosen[columns.JOB] -= lacking
            room += lacking
        chosen[column] = least
        room -= least + len(_GAP)
    for column, width in chosen.items():
        more = min(needed[column] - width, room)
        chosen[column] += more
        room -= more
    return [(column, chosen[column]) for column in _FROM_LEFT if column in chosen]


def _needed(column: Column, locks: Sequence[Lock], paper: Paper) -> int:
    """Return the cells of the longest entry of a column, 0 where no entry says anything."""
    most = _most(column, paper)
    nothing = {"", paper.look.glyphs.nothing}
    longest = 0
    for lock in locks:
        spans = column.cell(lock, most, paper.look)
        if "".join(text for text, _ in spans).strip() not in nothing:
            longest = max(longest, width_of(spans))
    return min(max(longest, len(column.title)), most) if longest else 0


def _most(column: Column, paper: Paper) -> int:
    if paper.width is not None:
        return min(column.most, paper.width)
    return column.most if column is columns.MAX else _ENDLESS


def arrange(locks: Sequence[Lock]) -> list[Lock]:
    """Return the locks by key, the worst key first; of each the holders, then those who wait for them."""
    by_key: dict[tuple[str | None, AdvisoryKey], list[Lock]] = {}
    for lock in locks:
        by_key.setdefault((lock.database, lock.key), []).append(lock)
    for same in by_key.values():
        same.sort(key=lambda lock: (not lock.granted, -_seconds(lock)))
    arranged = sorted(
        by_key.values(),
        key=lambda same: (
            -max(_RANK[lock.severity] for lock in same),
            -max(map(_seconds, same)),
            label(same[0]),
        ),
    )
    return [*chain.from_iterable(arranged)]


def _seconds(lock: Lock) -> float:
    return (lock.held.seconds if lock.held else lock.waited_seconds) or 0.0


def _finding(finding: Finding, paper: Paper) -> Iterator[str]:
    look, severity = paper.look, finding.severity
    head = f"{look.glyphs.of(severity)} {severity.upper()}"
    yield from _wrapped((head, severity), f"  {look.text(finding.summary)}", paper)
    # Not wrapped: it is there to be copied.
    yield paper.line([("  do: ", "quiet"), (look.text(finding.suggestion), "text")])


def _wrapped(head: Span, text: str, paper: Paper) -> Iterator[str]:
    start, meaning = head
    if paper.width is None:
        yield paper.line([head, (text, "text")])
        return
    first, *rest = wrap(start + text, paper.width - len(_GAP))
    yield paper.line([(first[: len(start)], meaning), (first[len(start) :], "text")])
    for line in rest:
        yield paper.line([(_GAP + line, "text")])

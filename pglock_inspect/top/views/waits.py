"""Who waits for whom: a tree to the root of each wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pglock_inspect.durations import format_duration
from pglock_inspect.present import columns
from pglock_inspect.present.columns import Column, label
from pglock_inspect.top.details import describe as describe_lock, of_blocked
from pglock_inspect.top.filter import Facts
from pglock_inspect.top.layout import Plan
from pglock_inspect.top.tree import Node, branch, forest
from pglock_inspect.top.view import Order, Row, View
from pglock_inspect.top.views.locks import session_record

if TYPE_CHECKING:
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Span
    from pglock_inspect.top.sections import Section


def _mark(node: Node, _width: int, look: Look) -> list[Span]:
    severity = node.lock.severity if node.lock else None
    return [(look.glyphs.of(severity), severity or "text")]


def _who(node: Node, _width: int, look: Look) -> list[Span]:
    application = node.session.application_name if node.session else None
    return [
        (branch(node, look), "quiet"),
        (look.text(str(node.process)), "text" if node.forks else "strong"),
        (f" {look.text(application)}" if application else "", "quiet"),
    ]


def _waits_for(node: Node, _width: int, look: Look) -> list[Span]:
    if node.waiting:
        return [(look.text(label(node.waiting)), "info")]
    if node.waits_for:
        return [(look.text(node.waits_for), "info")]
    return columns.nothing(look)


def _for(node: Node, _width: int, _look: Look) -> list[Span]:
    if node.waited_seconds is None:
        return [(columns.UNKNOWN, "quiet")] if node.blocked_by else [("root", "warning")]
    return [(format_duration(node.waited_seconds), "info")]


def _holds(node: Node, _width: int, look: Look) -> list[Span]:
    if node.holding is None:
        return columns.nothing(look)
    urgent = node.holding.severity in {"critical", "warning"}
    text = look.text(label(node.holding))
    return [(text, node.holding.severity if urgent and node.holding.severity else "strong")]


def _blocked_by(node: Node, _width: int, look: Look) -> list[Span]:
    if not node.blocked_by:
        return columns.nothing(look)
    return [(", ".join(look.text(str(process)) for process in node.blocked_by), "text")]


MARK = Column("", 1, 1, _mark)
WHO = Column("WHO", 18, 60, _who)
WAITS_FOR = Column("WAITS FOR", 14, 40, _waits_for)
FOR = Column("FOR", 11, 11, _for, right=True)
HOLDS = Column("HOLDS", 18, 40, _holds)
BLOCKED_BY = Column("BLOCKED BY", 12, 40, _blocked_by)


def _facts(node: Node) -> Facts:
    session, lock = node.session, node.lock
    return Facts(
        job=label(lock) if lock else None,
        user=session.user if session else None,
        application=session.application_name if session else None,
        database=lock.database if lock else session.database if session else None,
        more=f"{node.process}\n{node.waits_for or ''}",
    )


def _title(node: Node) -> str:
    return f"pid {node.process}" if isinstance(node.process, int) else node.process


def _describe(row: Row, look: Look) -> list[Section]:
    node: Node = row.item
    if node.lock:
        return describe_lock(node.lock, row.sight, look)
    return of_blocked(node, row.sight.report, look)


def _record(row: Row) -> dict[str, Any]:
    node: Node = row.item
    return {
        "process": node.process,
        "path": " ".join(map(str, node.path)),
        "waits_for": label(node.waiting) if node.waiting else node.waits_for,
        "waited_seconds": node.waited_seconds,
        "blocked_by": " ".join(map(str, node.blocked_by)),
        "holds": label(node.holding) if node.holding else None,
        **session_record(node.session),
    }


VIEW = View(
    name="waits",
    nothing="Nobody waits for a lock.",
    plan=Plan(
        mark=MARK,
        from_left=(WHO, FOR, WAITS_FOR, HOLDS, BLOCKED_BY, columns.SESSION, columns.QUERY),
        main=WHO,
        always=(FOR, WAITS_FOR),
        if_room=(HOLDS, columns.SESSION, columns.QUERY, BLOCKED_BY),
        widened=(
            *((WHO, 22), (HOLDS, 25), (WAITS_FOR, 25), (WHO, 30), (columns.QUERY, 40), (WHO, 40)),
            *((BLOCKED_BY, 24), (columns.QUERY, columns.QUERY.most)),
        ),
        least={columns.QUERY: 16},
    ),
    orders=(Order("as a tree"),),
    items=lambda sight: forest(sight.report),
    identity=lambda node: node.process,
    facts=_facts,
    lock_of=lambda row: row.item.lock,
    title=_title,
    describe=_describe,
    record=_record,
)

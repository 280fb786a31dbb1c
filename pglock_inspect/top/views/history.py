"""What was taken and released since the view was opened, the newest first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pglock_inspect.durations import format_duration
from pglock_inspect.model import to_datetime
from pglock_inspect.present import columns
from pglock_inspect.present.columns import Column, label
from pglock_inspect.top.details import describe, of_key, of_session
from pglock_inspect.top.layout import Plan
from pglock_inspect.top.past import holds_like
from pglock_inspect.top.rows import identity
from pglock_inspect.top.sections import Section
from pglock_inspect.top.timeline import recent
from pglock_inspect.top.view import Order, Row, View
from pglock_inspect.top.views import locks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pglock_inspect.model import Instant
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Span
    from pglock_inspect.top.filter import Facts
    from pglock_inspect.top.past import Hold


def _of_lock(column: Column) -> Column:
    """Return a column of locks as one of the locks that were held."""
    cell: Callable[[Any, int, Look], list[Span]] = column.cell
    return column._replace(cell=lambda hold, width, look: cell(hold.lock, width, look))


def _mark(hold: Hold, _width: int, _look: Look) -> list[Span]:
    return [("-", "quiet") if hold.released_at else ("+", "good")]


def _state(hold: Hold, _width: int, _look: Look) -> list[Span]:
    return [("released", "quiet") if hold.released_at else ("held", "good")]


def _moment(instant: Instant | None, look: Look) -> list[Span]:
    return columns.nothing(look) if instant is None else [(f"{to_datetime(instant):%H:%M:%S}", "text")]


def _lasted(hold: Hold, _width: int, look: Look) -> list[Span]:
    if hold.seconds is None:
        return [(columns.UNKNOWN, "quiet")]
    return [(f"{look.glyphs.about} {format_duration(hold.seconds)}", "text")]


MARK = Column("", 1, 1, _mark)
STATE = Column("STATE", 8, 8, _state)
LASTED = Column("HELD FOR", 13, 13, _lasted, right=True)
TAKEN = Column("TAKEN", 8, 8, lambda hold, _, look: _moment(hold.taken_at, look))
RELEASED = Column("RELEASED", 8, 8, lambda hold, _, look: _moment(hold.released_at, look))
JOB, KEY, PID = _of_lock(columns.JOB), _of_lock(columns.KEY), _of_lock(columns.PID)
USER, APPLICATION = _of_lock(columns.USER), _of_lock(columns.APPLICATION)
CLIENT, DATABASE, QUERY = _of_lock(columns.CLIENT), _of_lock(columns.DATABASE), _of_lock(columns.QUERY)


def _facts(hold: Hold) -> Facts:
    return locks.facts(hold.lock)


def _describe(row: Row, look: Look) -> list[Section]:
    """Return what is known of a hold: of one that is over, as it was last seen."""
    hold: Hold = row.item
    lock, report = hold.lock, row.sight.report
    if hold.released_at is None:
        return describe(lock, row.sight, look)
    return [
        recent(holds_like(lock, row.sight.past), report, look),
        *of_session(lock.session, report, look),
        Section("Key", list(of_key(lock, look))),
    ]


def _record(row: Row) -> dict[str, Any]:
    hold: Hold = row.item
    return {
        "job": hold.lock.name.text if hold.lock.name else None,
        "database": hold.lock.database,
        "key": str(hold.lock.key),
        "mode": hold.lock.mode,
        "taken_at": None if hold.taken_at is None else to_datetime(hold.taken_at).isoformat(),
        "released_at": None if hold.released_at is None else to_datetime(hold.released_at).isoformat(),
        "held_seconds": hold.seconds,
        "pid": hold.lock.pid,
        "prepared_gid": hold.lock.prepared.gid if hold.lock.prepared else None,
        **locks.session_record(hold.lock.session),
    }


VIEW = View(
    name="history",
    nothing="Nothing was taken or released since this view was opened.",
    plan=Plan(
        mark=MARK,
        from_left=(
            *(JOB, KEY, STATE, LASTED, TAKEN, RELEASED, PID, USER, APPLICATION, CLIENT, DATABASE, QUERY),
        ),
        main=JOB,
        always=(STATE, LASTED),
        if_room=(TAKEN, RELEASED, PID, APPLICATION, KEY, USER, CLIENT, DATABASE, QUERY),
        widened=(*((JOB, 28), (APPLICATION, 20), (KEY, 23), (JOB, 40), (CLIENT, 26), (QUERY, 10_000)),),
        least={KEY: 12, QUERY: 16},
    ),
    orders=(
        Order("newest first", lambda hold: -hold.changed_at),
        Order("job", lambda hold: label(hold.lock).casefold(), JOB),
        Order("longest first", lambda hold: -(hold.seconds or -1.0), LASTED),
        Order("pid", lambda hold: hold.lock.pid or 0, PID),
    ),
    items=lambda sight: sight.past,
    identity=lambda hold: (identity(hold.lock), hold.taken_at or hold.released_at),
    facts=_facts,
    lock_of=lambda row: row.item.lock if row.item.released_at is None else None,
    title=lambda hold: label(hold.lock),
    describe=_describe,
    record=_record,
)

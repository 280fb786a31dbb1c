"""Every lock that is held or waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.present import columns
from pglock_inspect.present.columns import label
from pglock_inspect.top.details import describe
from pglock_inspect.top.filter import Facts
from pglock_inspect.top.layout import Plan
from pglock_inspect.top.rows import identity, seconds_of, worst_first
from pglock_inspect.top.view import Order, View

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pglock_inspect.model import Lock, Session

PLAN = Plan(
    mark=columns.MARK,
    main=columns.JOB,
    from_left=(
        *(columns.JOB, columns.KEY, columns.STATE, columns.FOR, columns.MAX, columns.WAITERS, columns.PID),
        *(columns.USER, columns.APPLICATION, columns.CLIENT, columns.DATABASE, columns.SESSION),
        columns.QUERY,
    ),
    always=(columns.STATE, columns.FOR),
    if_room=(
        *(columns.WAITERS, columns.PID, columns.MAX, columns.APPLICATION, columns.KEY),
        *(columns.USER, columns.CLIENT, columns.QUERY, columns.SESSION, columns.DATABASE),
    ),
    widened=(
        *((columns.JOB, 28), (columns.QUERY, 24), (columns.KEY, 20), (columns.QUERY, 40), (columns.JOB, 40)),
        *((columns.APPLICATION, 28), (columns.MAX, 24), (columns.USER, 16), (columns.CLIENT, 26)),
        *((columns.KEY, 23), (columns.DATABASE, 16), (columns.QUERY, columns.QUERY.most)),
    ),
    least={columns.KEY: 12, columns.QUERY: 16},
)


def facts(lock: Lock) -> Facts:
    """Return what a lock is filtered by."""
    session, prepared = lock.session, lock.prepared
    return Facts(
        job=label(lock),
        user=prepared.owner if prepared else session.user if session else None,
        application=session.application_name if session else None,
        database=lock.database,
        more=prepared.gid if prepared else None if lock.pid is None else str(lock.pid),
    )


def record(lock: Lock) -> dict[str, Any]:
    """Return what is exported of a lock."""
    held = lock.held
    return {
        "job": lock.name.text if lock.name else None,
        "database": lock.database,
        "key": str(lock.key),
        "classid": lock.key.classid,
        "objid": lock.key.objid,
        "objsubid": lock.key.objsubid,
        "mode": lock.mode,
        "granted": lock.granted,
        "held_seconds": held.seconds if held else None,
        "held_at_least": held.at_least if held else None,
        "held_at_most": held.at_most if held else None,
        "evidence": held.evidence if held else None,
        "waited_seconds": lock.waited_seconds,
        "max_held": lock.max_held,
        "severity": lock.severity,
        "findings": " ".join(lock.findings),
        "waiters": lock.waiters,
        "blocked_by": " ".join(map(str, lock.blocked_by)),
        "pid": lock.pid,
        "prepared_gid": lock.prepared.gid if lock.prepared else None,
        **session_record(lock.session),
    }


def session_record(session: Session | None) -> dict[str, Any]:
    """Return what is exported of a session."""
    names = ("user", "application_name", "client", "state", "query")
    return {name: getattr(session, name, None) for name in names}


def _text(attribute: str) -> Callable[[Lock], tuple[bool, str]]:
    """Return a key by what a session tells; those that tell nothing come last."""

    def key(lock: Lock) -> tuple[bool, str]:
        value = getattr(lock.session, attribute, None)
        return not value, (value or "").casefold()

    return key


def _ratio(lock: Lock) -> float:
    seconds = lock.held.seconds if lock.held else None
    return -(seconds or 0.0) / lock.max_held if lock.max_held else 0.0


VIEW = View(
    name="locks",
    nothing="No advisory lock is held or waited for.",
    plan=PLAN,
    orders=(
        Order("worst first", worst_first),
        Order("job", lambda lock: label(lock).casefold(), columns.JOB),
        Order("key", lambda lock: lock.key, columns.KEY),
        Order("state", lambda lock: (not lock.granted, lock.mode), columns.STATE),
        Order("longest first", lambda lock: -(seconds_of(lock) or -1.0), columns.FOR),
        Order("share of the limit", _ratio, columns.MAX),
        Order("waiters", lambda lock: -lock.waiters, columns.WAITERS),
        Order("pid", lambda lock: lock.pid or 0, columns.PID),
        Order("user", _text("user"), columns.USER),
        Order("application", _text("application_name"), columns.APPLICATION),
        Order("client", _text("client"), columns.CLIENT),
        Order("database", lambda lock: lock.database or "", columns.DATABASE),
    ),
    items=lambda sight: sight.locks,
    identity=identity,
    facts=facts,
    lock_of=lambda row: row.item,
    title=label,
    describe=lambda row, look: describe(row.item, row.sight, look),
    record=lambda row: record(row.item),
)

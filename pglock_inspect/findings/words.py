"""The words that rules share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings.scene import only_key

if TYPE_CHECKING:
    from pglock_inspect.findings.scene import Scene, Wait
    from pglock_inspect.model import Held, HoldGroup, Session, Subject

_COMMAND = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*([a-z]+)", re.IGNORECASE | re.DOTALL)


def title(group: HoldGroup, subject: Subject) -> str:
    """Return what to call the keys: the job, the key, or how many keys there are."""
    if subject.name:
        return f"{subject.name.text} (maybe)" if subject.name.maybe else subject.name.text
    key = only_key(group, subject.keys)
    return f"key {key}" if key else f"{len(subject.keys):,} keys without a name"


def holder(group: HoldGroup) -> str:
    """Return who holds or waits: a process with its user and application, or a prepared transaction."""
    if group.prepared:
        return f"prepared transaction {group.prepared.gid!r}"
    if group.rows.pid is None:
        return f"a prepared transaction ({group.rows.virtual_transaction})"
    return process(group.rows.pid, group.session)


def process(pid: int, session: Session | None) -> str:
    """Return a process with its user, its application, and its type where it is not a client's."""
    if session is None:
        return f"pid {pid}"
    kind = None if session.backend_type == "client backend" else session.backend_type
    known = [text for text in (session.user, session.application_name, kind) if text]
    return f"pid {pid} ({', '.join(known)})" if known else f"pid {pid}"


def blocker(scene: Scene, pid: int) -> str:
    """Return who blocks, and its state; pid 0 is a prepared transaction."""
    if not pid:
        return "a prepared transaction"
    session = scene.snapshot.sessions.get(pid)
    state = f", {session.state}" if session and session.state else ""
    return f"{process(pid, session)}{state}"


def age(held: Held) -> str:
    """Return what is known of an age, in numbers: the estimate, its bounds and its source."""
    parts = [
        f"held {format_duration(held.seconds)}" if held.seconds is not None else "held for an unknown time"
    ]
    if held.at_least is not None:
        parts.append(f"at least {format_duration(held.at_least)}")
    if held.at_most is not None:
        parts.append(f"at most {format_duration(held.at_most)}")
    return f"{', '.join(parts)} (evidence: {held.evidence})"


def last_command(session: Session) -> str:
    """Return the first word of a session's last statement; more of it may be nobody else's business."""
    match = _COMMAND.match(session.query or "")
    return match[1].upper() if match else "statement"


def wait(waiting: Wait) -> str:
    """Return what a process waits for."""
    if waiting.other:
        return f"a {waiting.other.locktype} lock ({waiting.other.mode})"
    return title(waiting.advisory, waiting.advisory.subjects[0]) if waiting.advisory else "a lock"


def end_holder(group: HoldGroup) -> str:
    """Return the command that ends a holder."""
    if group.prepared:
        return rollback_prepared(group)
    if group.rows.pid is None:
        return "SELECT gid, database, prepared FROM pg_prepared_xacts"
    return f"pglock-inspect kill {group.rows.pid} --terminate"


def end_waiter(group: HoldGroup) -> str:
    """Return the command that makes a waiter give up."""
    return f"pglock-inspect kill {group.rows.pid} --cancel"


def why(group: HoldGroup) -> str:
    """Return the command that gives an account of a holder, and of what it waits for."""
    if group.rows.pid is not None:
        return f"pglock-inspect why {group.rows.pid}"
    return f"pglock-inspect why {group.rows.key(next(iter(group.keys)))}"


def rollback_prepared(group: HoldGroup) -> str:
    """Return the SQL that ends a prepared transaction; it has to run in the database of that one."""
    assert group.prepared is not None
    gid = group.prepared.gid.replace("'", "''")
    database = " ".join((group.prepared.database or "its own").split())
    return f"ROLLBACK PREPARED '{gid}'  -- in database {database}; COMMIT PREPARED, if its work is wanted"

"""The words that rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings.scene import only_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pglock_inspect.findings.scene import Wait
    from pglock_inspect.model import Held, HoldGroup, Session, Subject

_LONGEST_STATEMENT = 80


def title(group: HoldGroup, subject: Subject) -> str:
    """Return what to call the keys: the job, the key, or how many keys there are."""
    if subject.name:
        return f"{subject.name.text} (maybe)" if subject.name.maybe else subject.name.text
    key = only_key(group, subject.keys)
    return f"key {key}" if key else f"{len(subject.keys):,} keys without a name"


def holder(group: HoldGroup) -> str:
    """Return who holds or waits: a pid with its user and application, or a prepared transaction."""
    if group.prepared:
        return f"prepared transaction {group.prepared.gid!r}"
    if group.rows.pid is None:
        return f"a prepared transaction ({group.rows.virtual_transaction})"
    session = group.session
    known = [text for text in (session.user, session.application_name) if text] if session else []
    return f"pid {group.rows.pid} ({', '.join(known)})" if known else f"pid {group.rows.pid}"


def process(group: HoldGroup) -> str:
    """Return how a command names a process: by pid, or by the gid of a prepared transaction."""
    return str(group.rows.pid) if group.prepared is None else f"'{group.prepared.gid}'"


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


def statement(session: Session) -> str:
    """Return the beginning of a session's last statement, on one line."""
    text = " ".join((session.query or "").split())
    return text if len(text) <= _LONGEST_STATEMENT else f"{text[:_LONGEST_STATEMENT]}…"


def wait(waiting: Wait) -> str:
    """Return what a process waits for."""
    if waiting.other:
        return f"a {waiting.other.locktype} lock ({waiting.other.mode})"
    return title(waiting.advisory, waiting.advisory.subjects[0]) if waiting.advisory else "a lock"


def pids(blockers: Iterable[int | str]) -> str:
    """Return who blocks, as ``pg_blocking_pids()`` says it: 0 is a prepared transaction."""
    return ", ".join(f"pid {pid}" if pid else "a prepared transaction" for pid in blockers) or "nobody"


def end_holder(group: HoldGroup) -> str:
    """Return the command that ends a holder."""
    if group.prepared:
        return rollback_prepared(group)
    return f"pglock-inspect kill {group.rows.pid} --terminate"


def end_waiter(group: HoldGroup) -> str:
    """Return the command that makes a waiter give up."""
    return f"pglock-inspect kill {group.rows.pid} --cancel"


def rollback_prepared(group: HoldGroup) -> str:
    """Return the SQL that ends a prepared transaction, and where to run it."""
    assert group.prepared is not None
    gid = group.prepared.gid.replace("'", "''")
    where = f" in database {group.prepared.database}" if group.prepared.database else " in its own database"
    return f"ROLLBACK PREPARED '{gid}';{where} (or COMMIT PREPARED, if its work is wanted)"

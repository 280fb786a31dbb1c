"""The words that rules share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings.scene import only_key

if TYPE_CHECKING:
    from pglock_inspect.findings.scene import Scene, Wait
    from pglock_inspect.model import Held, HoldGroup, Session, Subject

# What was read is not tried in another way: a line of dashes would take forever.
_COMMAND = re.compile(r"(?:\s++|--[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/)*+([a-z]+)", re.IGNORECASE)


def title(group: HoldGroup, subject: Subject) -> str:
    """Return what to call the keys: the job, the key, or how many keys there are."""
    if subject.name:
        return f"{subject.name.text} (maybe)" if subject.name.maybe else subject.name.text
    key = only_key(group, subject.keys)
    return f"key {key}" if key else f"{len(subject.keys):,} keys without a name"


def be(subject: Subject) -> str:
    """Return "is" or "are", as it follows the title of the keys."""
    return "are" if _several(subject) else "is"


def it(subject: Subject) -> str:
    """Return "it" or "them", for the keys as their title calls them."""
    return "them" if _several(subject) else "it"


def _several(subject: Subject) -> bool:
    return subject.name is None and len(subject.keys) > 1


def count(number: int, thing: str) -> str:
    """Return how many there are of what has a regular plural."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


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
    estimate = "for an unknown time" if held.seconds is None else format_duration(held.seconds)
    return f"{', '.join((f'held {estimate}', *bounds(held)))} (evidence: {held.evidence})"


def bounds(held: Held) -> list[str]:
    """Return what is proven of an age: the least, the most, or nothing."""
    return [
        f"{words} {format_duration(seconds)}"
        for words, seconds in (("at least", held.at_least), ("at most", held.at_most))
        if seconds is not None
    ]


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

"""What stands in each column of a table of locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pglock_inspect.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from pglock_inspect.model import Evidence, Held, Lock
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Meaning, Span

UNKNOWN = "?"

_SESSION_STATES = {
    "idle in transaction": "idle in xact",
    "idle in transaction (aborted)": "aborted xact",
    "fastpath function call": "fastpath",
}
_MODES = {"ExclusiveLock": "exclusive", "ShareLock": "shared"}
_EVIDENCE: dict[Evidence, str] = {
    "stamp": "stamp",
    "prepared": "prepared",
    "session_state": "session state",
    "transaction": "transaction",
    "statement": "statement",
    "observed": "observed",
    "none": "connected",
}


class Column(NamedTuple):
    """One column; it is shown where there is room for ``width`` cells, and takes up to ``most``.

    ``cell`` gets what the row is about, which is a lock in this module, and the width.
    """

    title: str
    width: int
    most: int
    cell: Callable[[Any, int, Look], list[Span]]
    right: bool = False


def label(lock: Lock) -> str:
    """Return what people call the lock: its name, or its key where it has none."""
    if lock.name is None:
        return str(lock.key)
    return f"{lock.name.text}?" if lock.name.maybe else lock.name.text


def held_text(held: Held, look: Look) -> str:
    """Return ``42 min``, ``≥ 42 min`` (proven), ``~ 42 min`` (an estimate), ``< 3 h`` (no more) or ``?``."""
    signs = look.glyphs
    if held.seconds is None:
        return UNKNOWN if held.at_most is None else f"< {format_duration(held.at_most)}"
    by_evidence: dict[Evidence, str] = {
        "prepared": f"{signs.at_least} ",
        "session_state": f"{signs.at_least} ",
        "transaction": f"{signs.at_most} ",
        "statement": f"{signs.about} ",
        "observed": f"{signs.about} ",
    }
    return by_evidence.get(held.evidence, "") + format_duration(held.seconds)


def bar(ratio: float, width: int, meaning: Meaning, look: Look) -> list[Span]:
    """Return a bar that is full at a ratio of 1 and says so in its last cell beyond that."""
    signs = look.glyphs
    if ratio > 1:
        return [(signs.full * (width - 1) + signs.beyond, meaning)]
    halves = round(ratio * width * 2)
    full = signs.full * (halves // 2) + signs.half * (halves % 2)
    return [(full, meaning), (signs.empty * (width - (halves + 1) // 2), "quiet")]


def _mark(lock: Lock, _width: int, look: Look) -> list[Span]:
    return [(look.glyphs.of(lock.severity), lock.severity or "text")]


def _job(lock: Lock, _width: int, look: Look) -> list[Span]:
    if lock.name is None:
        return [(label(lock), "quiet")]
    urgent = lock.severity in {"critical", "warning"}
    return [(look.text(label(lock)), lock.severity if urgent and lock.severity else "strong")]


def _key(lock: Lock, _width: int, _look: Look) -> list[Span]:
    return [(str(lock.key), "text")]


def _state(lock: Lock, _width: int, _look: Look) -> list[Span]:
    if not lock.granted:
        return [("waiting", "info")]
    if lock.prepared:
        return [("prepared", "text")]
    return [("shared" if lock.mode == "ShareLock" else "held", "text")]


def _for(lock: Lock, _width: int, look: Look) -> list[Span]:
    if lock.held:
        return [(held_text(lock.held, look), "text" if lock.held.seconds is not None else "quiet")]
    if lock.waited_seconds is None:
        return [(UNKNOWN, "quiet")]
    return [(format_duration(lock.waited_seconds), "info")]


def _of_max(lock: Lock, width: int, look: Look) -> list[Span]:
    if not lock.held or lock.max_held is None:
        return [("", "text")]
    limit = f" {format_duration(lock.max_held)}"
    ratio = (lock.held.seconds or 0.0) / lock.max_held if lock.max_held else 2.0
    meaning: Meaning = "good"
    if ratio >= 1:
        meaning = "critical" if lock.severity == "critical" else "warning"
    return [*bar(ratio, width - len(limit), meaning, look), (limit, "quiet")]


def _waiters(lock: Lock, _width: int, look: Look) -> list[Span]:
    return [(str(lock.waiters), "info")] if lock.waiters else nothing(look)


def _blocked_by(lock: Lock, _width: int, look: Look) -> list[Span]:
    behind = "" if lock.blocked_by else "behind "
    ahead = lock.blocked_by or lock.queued_behind
    if not ahead:
        return nothing(look)
    return [(behind + ", ".join(look.text(str(process)) for process in ahead), "info")]


def _pid(lock: Lock, _width: int, look: Look) -> list[Span]:
    return nothing(look) if lock.pid is None else [(str(lock.pid), "text")]


def _of_session(attribute: str) -> Callable[[Lock, int, Look], list[Span]]:
    def cell(lock: Lock, _width: int, look: Look) -> list[Span]:
        value = getattr(lock.session, attribute, None)
        return [(look.text(value), "text")] if value else nothing(look)

    return cell


def _user(lock: Lock, width: int, look: Look) -> list[Span]:
    if lock.prepared and lock.prepared.owner:
        return [(look.text(lock.prepared.owner), "text")]
    return _of_session("user")(lock, width, look)


def _database(lock: Lock, _width: int, look: Look) -> list[Span]:
    return [(look.text(lock.database), "text")] if lock.database else nothing(look)


def _session(lock: Lock, _width: int, look: Look) -> list[Span]:
    if lock.session is None or lock.session.state is None:
        return nothing(look)
    return [(_SESSION_STATES.get(lock.session.state, look.text(lock.session.state)), "text")]


def _lock_mode(lock: Lock, _width: int, look: Look) -> list[Span]:
    return [(" ".join(filter(None, (_MODES.get(lock.mode) or look.text(lock.mode), lock.scope))), "text")]


def _evidence(lock: Lock, _width: int, look: Look) -> list[Span]:
    held = lock.held
    if held is None or (held.evidence == "none" and held.at_most is None):
        return nothing(look)
    return [(_EVIDENCE[held.evidence], "quiet")]


def _query(lock: Lock, width: int, look: Look) -> list[Span]:
    if lock.prepared:
        return [(f"PREPARE TRANSACTION '{look.text(lock.prepared.gid)}'", "quiet")]
    query = lock.session.query if lock.session else None
    # A row shows the beginning of a statement, which may be a megabyte long.
    return [(look.text(query[: width * 2].lstrip()), "quiet")] if query else nothing(look)


def nothing(look: Look) -> list[Span]:
    """Return what stands where there is nothing to tell."""
    return [(look.glyphs.nothing, "quiet")]


MARK = Column("", 1, 1, _mark)
JOB = Column("JOB", 20, 40, _job)
KEY = Column("KEY", 20, 23, _key)
STATE = Column("STATE", 8, 8, _state)
FOR = Column("FOR", 13, 13, _for, right=True)
MAX = Column("OF MAX", 14, 24, _of_max)
WAITERS = Column("WAIT", 4, 5, _waiters, right=True)
BLOCKED_BY = Column("BLOCKED BY", 10, 24, _blocked_by)
PID = Column("PID", 7, 7, _pid, right=True)
USER = Column("USER", 8, 16, _user)
APPLICATION = Column("APPLICATION", 11, 28, _of_session("application_name"))
CLIENT = Column("CLIENT", 15, 26, _of_session("client"))
DATABASE = Column("DATABASE", 8, 16, _database)
SESSION = Column("SESSION", 12, 12, _session)
MODE = Column("MODE", 9, 21, _lock_mode)
EVIDENCE = Column("EVIDENCE", 9, 13, _evidence)
QUERY = Column("QUERY", 24, 10_000, _query)

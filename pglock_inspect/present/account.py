"""A plain-language account of one lock: who holds it, how we know, who waits, and what to do."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from msgspec import Struct

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.unnamed import get_to_know
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import SEVERITIES
from pglock_inspect.present.evidence import clock, findings_of, known_how, since
from pglock_inspect.present.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pglock_inspect.model import Blocked, Finding, Held, Lock, Report, Session
    from pglock_inspect.present.meaning import Free

_MOST_LISTED = 5
_LONGEST_STATEMENT = 100
_COMMIT_WORDS = ("commit", "rollback", "end", "abort")
_KILL = "pglock-inspect kill"


class Line(Struct, frozen=True):
    """One point of an account, under its label; ``label`` is empty where it goes on."""

    label: str
    text: str


class Account(Struct, frozen=True):
    """What is to be said of one key in one database."""

    database: str | None
    key: AdvisoryKey
    job: str | None
    title: str
    lines: tuple[Line, ...]


def accounts(report: Report, places: Iterable[tuple[str | None, AdvisoryKey]]) -> list[Account]:
    """Return an account of each key in its database, with all that the report shows of it."""
    return [_account(report, *place) for place in dict.fromkeys(places)]


def account_of_free(place: Free, job: str | None, *, configured: bool) -> Account:
    """Return an account of a key that nobody holds or wants; ``job`` is what it was asked for by."""
    lines = []
    if job and not configured:
        lines = [
            Line("Key", f"{place.key} by {place.scheme}, a guess: no job of this name is configured."),
            Line("Do", f"if it should be held, compare its keys: pglock-inspect key {shlex.quote(job)}"),
        ]
    return Account(
        database=place.database,
        key=place.key,
        job=job,
        title=f"{_called(place.key, place.database, job)} is free: nobody holds it or waits for it.",
        lines=tuple(lines),
    )


def _account(report: Report, database: str | None, key: AdvisoryKey) -> Account:
    here = report.locks_on(database, key)
    holders = [lock for lock in here if lock.granted]
    waiters = sorted(
        (lock for lock in here if not lock.granted), key=lambda lock: -(lock.waited_seconds or 0.0)
    )
    name = next((lock.name for lock in here if lock.name), None)
    called = None if name is None else f"{name.text} (maybe)" if name.maybe else name.text
    return Account(
        database=database,
        key=key,
        job=name.text if name else None,
        title=_title(_called(key, database, called), holders),
        lines=tuple(_lines(report, holders, waiters)),
    )


def _called(key: AdvisoryKey, database: str | None, name: str | None) -> str:
    return f"{name or f'key {key}'} in database {database or 'unknown'}"


def _title(what: str, holders: Sequence[Lock]) -> str:
    if not holders:
        return f"{what} is held by nobody, yet waited for."
    longest = max(holders, key=lambda lock: (lock.held.seconds if lock.held else None) or 0.0)
    max_held = longest.max_held
    allowed = "for life by design" if max_held is None else f"allowed {format_duration(max_held)}"
    held = longest.held
    if held is None or held.seconds is None:
        known = "" if held is None or held.at_most is None else f" (at most {format_duration(held.at_most)})"
        return f"{what} is held, for an unknown time{known}, {allowed}."
    if any("stale" in lock.findings for lock in holders):
        return f"{what} is STALE: held {_estimate(held)}, {allowed}."
    return f"{what} has been held for {_estimate(held)}, {allowed}."


def _estimate(held: Held) -> str:
    """Return an age with a word for how far it can be relied on, where it is not proven."""
    assert held.seconds is not None
    age = format_duration(held.seconds)
    proven = held.at_least is not None and format_duration(held.at_least) == age
    word = {"transaction": "at most ", "statement": "about ", "observed": "about "}.get(held.evidence, "")
    return age if proven else word + age


def _lines(report: Report, holders: Sequence[Lock], waiters: Sequence[Lock]) -> Iterator[Line]:
    for lock in holders[:_MOST_LISTED]:
        yield Line("Held by", f"{_holder(lock, report)}.")
        yield Line("Known how", f"{_known_how(lock, report)}.")
        yield from _doing(lock)
        yield from _blockers(report, lock)
    if len(holders) > _MOST_LISTED:
        yield Line("Held by", f"{len(holders) - _MOST_LISTED} more.")
    yield Line("Waiting", _waiting(waiters))
    yield from (Line("Do", text) for text in _do(report, holders, waiters))


def _holder(lock: Lock, report: Report) -> str:
    if lock.prepared:
        prepared = lock.prepared
        return (
            f"prepared transaction {prepared.gid!r} of {prepared.owner or 'an unknown user'} "
            f"in database {prepared.database or 'unknown'}; no session is behind it"
        )
    session = lock.session
    if session is None:
        return f"pid {lock.pid}, which was gone when sessions were read"
    mode = {"ExclusiveLock": "", "ShareLock": ", shared"}.get(lock.mode, f", {lock.mode}")
    scope = f", {lock.scope}-level" if lock.scope else ""
    return f"pid {session.pid}{_who(session)}{mode}{scope}, {_state(session, report)}"


def _who(session: Session) -> str:
    client = f" at {session.client}" if session.client else ""
    application = f", {session.application_name}" if session.application_name else ""
    return f", user {session.user or 'unknown'}{application}{client}"


def _state(session: Session, report: Report) -> str:
    seconds = since(session.state_change, report)
    lasting = "" if seconds is None or session.state is None else f" for {format_duration(seconds)}"
    return f"{session.state or 'in an unknown state'}{lasting}"


def _known_how(lock: Lock, report: Report) -> str:
    proven = ", ".join(words.bounds(lock.held)) if lock.held else ""
    if proven:
        return f"{known_how(lock, report)}; held {proven}{_connected(lock, report)}"
    hidden = report.server is not None and not report.server.privileged
    return known_how(lock, report) + (
        "; other users' sessions are hidden from this role (GRANT pg_monitor)" if hidden else ""
    )


def _connected(lock: Lock, report: Report) -> str:
    """Return when the session began, where that is what proves how old its lock is at most."""
    connected = lock.session.backend_start if lock.session else None
    seconds = since(connected, report)
    at_most = lock.held.at_most if lock.held else None
    return f" (connected {clock(connected, report)})" if seconds is not None and seconds == at_most else ""


def _doing(lock: Lock) -> Iterator[Line]:
    """Yield what the holder is at, as far as its last statement tells."""
    session = lock.session
    if "prepared" in lock.findings:
        text = "lost by its transaction manager: a prepared transaction outlives sessions and restarts."
        yield Line("Likely", text)
    if session is None or session.query is None:
        return
    statement = one_line(session.query, _LONGEST_STATEMENT)
    if "leaked" in lock.findings:
        ended = session.query.strip().rstrip(";").lower().startswith(_COMMIT_WORDS)
        what = "left behind on a pooled connection" if ended else "left behind, or at work elsewhere"
        text = f"{what}: the last statement was {statement}, and no transaction is open."
        yield Line("Likely", text)
    elif session.idle:
        yield Line("Last ran", statement)
    elif session.state == "active":
        yield Line("Runs", statement)


def _blockers(report: Report, lock: Lock) -> Iterator[Line]:
    """Yield a blocked holder's way to the root, one process a line."""
    seen: set[int] = set()
    ahead = [lock.pid] if lock.pid in report.chain else []
    while ahead:
        blocked = report.chain.get(ahead.pop(0) or 0)
        if blocked is None or blocked.pid in seen or blocked.waits_for is None:
            continue
        seen.add(blocked.pid)
        lasting = "" if blocked.waited_seconds is None else f" for {format_duration(blocked.waited_seconds)}"
        by = "; ".join(_blocker(report, pid) for pid in blocked.blocked_by) or "nobody any more"
        yield Line(
            "Blocked", f"pid {blocked.pid} itself waits for {blocked.waits_for}{lasting}, blocked by {by}."
        )
        ahead += blocked.blocked_by


def _blocker(report: Report, pid: int) -> str:
    if pid == 0:
        return "a prepared transaction"
    known: Blocked | None = report.chain.get(pid)
    session = known.session if known else None
    if session is None:
        return f"pid {pid}"
    root = "" if known and known.waits_for else f", {_state(session, report)}: the root"
    return f"pid {pid}{_who(session)}{root}"


def _waiting(waiters: Sequence[Lock]) -> str:
    if not waiters:
        return "nobody."
    listed = ", ".join(
        f"pid {lock.pid}"
        + ("" if lock.waited_seconds is None else f" ({format_duration(lock.waited_seconds)})")
        for lock in waiters[:_MOST_LISTED]
    )
    more = f" and {len(waiters) - _MOST_LISTED} more" if len(waiters) > _MOST_LISTED else ""
    return f"{len(waiters)} session{'' if len(waiters) == 1 else 's'}: {listed}{more}."


def _do(report: Report, holders: Sequence[Lock], waiters: Sequence[Lock]) -> list[str]:
    """Return what the findings suggest, the worst first: about the holders, else about the waiters."""
    roots = [_end_root(report, pid) for lock in holders for pid in _roots(report, lock.pid)]
    for locks in (holders, waiters):
        found = [(finding, lock) for lock in locks for finding in findings_of(lock, report)]
        found.sort(key=lambda pair: -SEVERITIES.index(pair[0].severity))
        advice = [_advice(finding, lock.key) for finding, lock in found]
        told: list[str] = []
        for text in [*roots, *advice]:
            if text and not any(before in text for before in told):
                told.append(f"else the holder: {text}" if roots and text.startswith(_KILL) else text)
        if told:
            return [part for text in told[:_MOST_LISTED] for part in _explained(text, locks)]
    return ["nothing: all is as it should be."]


def _advice(finding: Finding, key: AdvisoryKey) -> str:
    """Return what a finding suggests about this one key, but to ask for an account."""
    suggestion = get_to_know(key) if finding.rule == "unnamed" else finding.suggestion
    return "; ".join(part for part in suggestion.split("; ") if "pglock-inspect why " not in part)


def _roots(report: Report, pid: int | None) -> list[int]:
    """Return who blocks a process in the end, as far as they are sessions."""
    ahead, seen = [pid], set[int]()
    while ahead:
        blocked = report.chain.get(ahead.pop() or 0)
        if blocked and blocked.pid not in seen:
            seen.add(blocked.pid)
            ahead += blocked.blocked_by
    return sorted(root for root in seen - {pid} if report.chain[root].waits_for is None)


def _end_root(report: Report, pid: int) -> str:
    if any(alike.lock.pid == pid for alike in report.alike):
        return f"end the root, if it may be ended: pglock-inspect kill {pid} --terminate"
    return f"end the root, if it may be ended: SELECT pg_terminate_backend({pid})"


def _explained(suggestion: str, locks: Sequence[Lock]) -> Iterator[str]:
    """Yield a suggestion, and what is to be known of it on a line of its own: a command is copied."""
    command, _, note = suggestion.rpartition("  -- ")
    yield command or note
    if command:
        yield f"({note})"
    if suggestion.startswith(_KILL) and any(lock.session and lock.session.idle for lock in locks):
        yield "(pg_cancel_backend would change nothing: the holder is idle)"

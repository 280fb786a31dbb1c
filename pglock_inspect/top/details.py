"""All that is known of one lock, as sections of labelled text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.model import seconds_between, to_datetime
from pglock_inspect.present.columns import held_text, label
from pglock_inspect.present.evidence import findings_of, known_how
from pglock_inspect.top.rows import same_key
from pglock_inspect.top.sections import Entry, Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pglock_inspect.model import (
        Finding,
        Held,
        Instant,
        Lock,
        NameSource,
        Prepared,
        Report,
        Session,
    )
    from pglock_inspect.present.look import Look

_NAMED_BY: dict[NameSource, str] = {
    "config": "the configuration",
    "query": "a string in a session's statement",
    "application_name": "a session's application_name",
    "names_query": "the names query",
    "known": "the list of known software",
}
_SHOWN_WAITERS = 50
_QUERY_LIMIT = 2_000


def describe(lock: Lock, report: Report, look: Look) -> list[Section]:
    """Return what the report knows of a lock, what matters most first."""
    sections = [
        Section("Findings", list(_findings(findings_of(lock, report), look))),
        Section("Held" if lock.granted else "Waiting", list(_age(lock, report, look))),
        Section("Waiters", list(_waiters(lock, report, look))),
        Section("Key", list(_key(lock, look))),
    ]
    if lock.prepared:
        sections.append(Section("Prepared transaction", list(_prepared(lock.prepared, report, look))))
    if lock.session:
        sections.append(Section("Session", list(_session(lock.session, report, look))))
    return [section for section in [*sections, general(report, look)] if section.entries]


def general(report: Report, look: Look) -> Section:
    """Return the findings that concern no single lock."""
    findings = [finding for finding in report.findings if finding.key is None and not finding.about]
    return Section("Server", list(_findings(findings, look)))


def _findings(findings: Iterable[Finding], look: Look) -> Iterator[Entry]:
    for finding in findings:
        sign = look.glyphs.of(finding.severity)
        yield Entry(sign, look.text(finding.summary), finding.severity, finding.severity)
        yield Entry("", look.text(finding.evidence), "quiet")
        yield Entry(look.glyphs.then, look.text(finding.suggestion), "strong", "info")


def _age(lock: Lock, report: Report, look: Look) -> Iterator[Entry]:
    if lock.held:
        yield from _held(lock, lock.held, report, look)
    elif lock.waited_seconds is not None:
        yield Entry("for", format_duration(lock.waited_seconds), "strong")
    if lock.blocked_by:
        yield Entry("blocked by", _processes(lock.blocked_by, look), "warning")
    if lock.queued_behind:
        yield Entry("behind", _processes(lock.queued_behind, look))


def _held(lock: Lock, held: Held, report: Report, look: Look) -> Iterator[Entry]:
    yield Entry("for", held_text(held, look), "strong")
    proven = words.bounds(held)
    if proven:
        yield Entry("proven", ", ".join(proven))
    yield Entry("known how", known_how(lock, report))
    max_held = lock.max_held
    if max_held is None:
        yield Entry("limit", "none")
    else:
        used = held.seconds / max_held if held.seconds and max_held else 0.0
        told = f", held {used:.1f} times as long" if used > 1 else f", {used:.0%} of it used" if used else ""
        yield Entry("limit", format_duration(max_held) + told)


def _waiters(lock: Lock, report: Report, look: Look) -> Iterator[Entry]:
    if not lock.granted or not lock.waiters:
        return
    waiting = [other for other in same_key(lock, report.locks) if not other.granted]
    waiting.sort(key=lambda waiter: -(waiter.waited_seconds or 0.0))
    for waiter in waiting[:_SHOWN_WAITERS]:
        time = "" if waiter.waited_seconds is None else f"for {format_duration(waiter.waited_seconds)}"
        application = waiter.session.application_name if waiter.session else None
        told = ", ".join(filter(None, (time, application and look.text(application))))
        yield Entry(f"pid {waiter.pid}", told or "waiting", "info")
    if len(waiting) > _SHOWN_WAITERS:
        yield Entry("", f"and {len(waiting) - _SHOWN_WAITERS} more")


def _key(lock: Lock, look: Look) -> Iterator[Entry]:
    key, name = lock.key, lock.name
    if name:
        by = f" by {name.scheme}" if name.scheme else ""
        maybe = "perhaps, " if name.maybe else ""
        yield Entry("name", look.text(label(lock)), "strong")
        yield Entry("named by", f"{maybe}{_NAMED_BY[name.source]}{by}")
        if name.product:
            yield Entry("product", look.text(name.product))
    if key.sql_arguments is not None:
        yield Entry(key.form, key.sql_arguments)
    yield Entry("pg_locks", f"classid {key.classid}, objid {key.objid}, objsubid {key.objsubid}")
    if lock.database:
        yield Entry("database", look.text(lock.database))
    yield Entry("mode", lock.mode)
    yield Entry("scope", f"{lock.scope}-level" if lock.scope else "not known: PostgreSQL does not tell")


def _prepared(prepared: Prepared, report: Report, look: Look) -> Iterator[Entry]:
    yield Entry("gid", look.text(prepared.gid))
    yield Entry("prepared", _moment(prepared.prepared_at, report))
    if prepared.owner:
        yield Entry("owner", look.text(prepared.owner))


def _session(session: Session, report: Report, look: Look) -> Iterator[Entry]:
    yield Entry("pid", str(session.pid))
    for name, value in (
        ("user", session.user),
        ("application", session.application_name),
        ("client", session.client),
        ("state", session.state),
        ("waits for", session.wait_event),
    ):
        if value:
            yield Entry(name, look.text(value))
    for name, instant in (
        ("state since", session.state_change),
        ("statement", session.query_start),
        ("transaction", session.xact_start),
        ("connected", session.backend_start),
    ):
        if instant is not None:
            yield Entry(name, _moment(instant, report))
    if session.query:
        yield Entry("query", look.text(session.query, _QUERY_LIMIT))


def _moment(instant: Instant, report: Report) -> str:
    age = max(seconds_between(instant, report.taken_at), 0.0)
    return f"{format_duration(age)} ago ({to_datetime(instant):%Y-%m-%d %H:%M:%S} UTC)"


def _processes(processes: Iterable[int | str], look: Look) -> str:
    return ", ".join(
        f"pid {process}" if isinstance(process, int) else f"prepared transaction {look.text(process)}"
        for process in processes
    )

"""All that is known of one lock, as sections of labelled text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.model import seconds_between, to_datetime
from pglock_inspect.present.account import accounts
from pglock_inspect.present.cells import cut
from pglock_inspect.present.columns import held_text, label
from pglock_inspect.present.evidence import findings_of, known_how
from pglock_inspect.top.past import holds_like
from pglock_inspect.top.sections import LONGEST_LABEL, Entry, Section
from pglock_inspect.top.sql import highlighted
from pglock_inspect.top.timeline import recent
from pglock_inspect.top.tree import branch, called, forest, process_of, queue_order, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    from pglock_inspect.present.spans import Meaning
    from pglock_inspect.top.tree import Node, Process
    from pglock_inspect.top.view import Sight

_NAMED_BY: dict[NameSource, str] = {
    "config": "the configuration",
    "query": "a string in a session's statement",
    "application_name": "a session's application_name",
    "names_query": "the names query",
    "known": "the list of known software",
}
_MOST_LISTED = 50
_QUERY_LIMIT = 2_000
_KNOWN_ELSEWHERE = {"Known how"}


def describe(lock: Lock, sight: Sight, look: Look) -> list[Section]:
    """Return what is known of a lock, what matters most first."""
    report = sight.report
    sections = [
        Section("Why", list(_why(lock, report, look))),
        Section("Findings", list(told_findings(findings_of(lock, report), look, advise=False))),
        Section("Held" if lock.granted else "Waiting", list(_age(lock, report, look))),
        Section("Waiters", list(_waiters(lock, report, look))),
        Section("Blocking", list(_tree(tree_of(lock, report), process_of(lock), look))),
        *of_session(lock.session, report, look),
        recent(holds_like(lock, sight.past), report, look),
        Section("Key", list(of_key(lock, look))),
    ]
    if lock.prepared:
        sections.append(Section("Prepared transaction", list(_prepared(lock.prepared, report, look))))
    return [section for section in [*sections, general(report, look)] if section.entries]


def of_blocked(node: Node, report: Report, look: Look) -> list[Section]:
    """Return what is known of a process that blocks others without an advisory lock."""
    nodes = [other for other in forest(report) if other.path[0] == node.path[0]]
    return [
        Section("Blocking", list(_tree(nodes, node.process, look))),
        *of_session(node.session, report, look),
    ]


def general(report: Report, look: Look) -> Section:
    """Return the findings that concern no single lock."""
    findings = [finding for finding in report.findings if finding.key is None and not finding.about]
    return Section("Server", list(told_findings(findings, look)))


def alone(report: Report, look: Look) -> Section:
    """Return what there is to tell where no row is selected."""
    nothing = Entry("", "Nothing was found that concerns it as a whole.", "quiet")
    section = general(report, look)
    return section if section.entries else section._replace(entries=[nothing])


def told_findings(findings: Iterable[Finding], look: Look, *, advise: bool = True) -> Iterator[Entry]:
    """Yield findings, each with its evidence and, to ``advise``, what to do."""
    for finding in findings:
        sign = look.glyphs.of(finding.severity)
        yield Entry(sign, look.text(finding.summary), finding.severity, finding.severity)
        yield Entry("", look.text(finding.evidence), "quiet")
        if advise:
            yield Entry(look.glyphs.then, look.text(finding.suggestion), "strong", "info")


def of_session(session: Session | None, report: Report, look: Look) -> Iterator[Section]:
    """Yield what is known of a session, and what it runs or ran last."""
    if session is None:
        return
    yield Section("Session", list(_session(session, report, look)))
    if session.query:
        title = "Statement" if session.state == "active" else "Last statement"
        text = look.text(session.query, _QUERY_LIMIT)
        yield Section(title, [Entry("", text, spans=highlighted(text))])


def _why(lock: Lock, report: Report, look: Look) -> Iterator[Entry]:
    [account] = accounts(report, [(lock.database, lock.key)])
    yield Entry("", look.text(account.title), lock.severity or "strong")
    before = ""
    for line in account.lines:
        if line.label in _KNOWN_ELSEWHERE:
            continue
        told = "" if line.label == before else line.label.lower()
        before = line.label
        yield Entry(told, look.text(line.text), "strong" if line.label == "Do" else "text")


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
    here = report.locks_on(lock.database, lock.key)
    waiting = sorted((other for other in here if not other.granted), key=queue_order)
    for waiter in waiting[:_MOST_LISTED]:
        time = "" if waiter.waited_seconds is None else f"for {format_duration(waiter.waited_seconds)}"
        application = waiter.session.application_name if waiter.session else None
        told = ", ".join(filter(None, (time, application and look.text(application))))
        yield Entry(f"pid {waiter.pid}", told or "waiting", "info")
    if len(waiting) > _MOST_LISTED:
        yield Entry("", f"and {len(waiting) - _MOST_LISTED} more")


def _tree(nodes: Sequence[Node], this: Process, look: Look) -> Iterator[Entry]:
    for node in nodes[:_MOST_LISTED]:
        meaning: Meaning = "strong" if node.process == this else "quiet"
        label = f"{branch(node, look)}{look.text(str(node.process))}"
        label = cut(label, LONGEST_LABEL, look.glyphs.ellipsis)
        yield Entry(label, _does(node, look), label_meaning=meaning)
    if len(nodes) > _MOST_LISTED:
        yield Entry("", f"and {len(nodes) - _MOST_LISTED} more")


def _does(node: Node, look: Look) -> str:
    who = node.session.application_name if node.session else None
    lasting = "" if node.waited_seconds is None else f" for {format_duration(node.waited_seconds)}"
    if node.waiting:
        does = f"waits{lasting} to get {label(node.waiting)}"
    elif node.waits_for:
        does = f"waits{lasting} for {node.waits_for}"
    else:
        does = "waits for nobody: the root"
    return look.text(", ".join(filter(None, (who, does))))


def of_key(lock: Lock, look: Look) -> Iterator[Entry]:
    """Yield what a key is called, and what it is to PostgreSQL."""
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


def _moment(instant: Instant, report: Report) -> str:
    age = max(seconds_between(instant, report.taken_at), 0.0)
    return f"{format_duration(age)} ago ({to_datetime(instant):%Y-%m-%d %H:%M:%S} UTC)"


def _processes(processes: Iterable[Process], look: Look) -> str:
    return ", ".join(called(process, look) for process in processes)

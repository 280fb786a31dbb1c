"""One job, one lock, one finding, as the page words them."""

from __future__ import annotations

import re
import shlex
from hashlib import blake2s
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.durations import format_duration
from pglock_inspect.model import SEVERITIES, seconds_between, to_datetime
from pglock_inspect.present import columns
from pglock_inspect.present.columns import UNKNOWN, held_text, label
from pglock_inspect.present.look import Look

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pglock_inspect.model import Finding, Instant, JobState, Lock, Severity
    from pglock_inspect.present.columns import Column
    from pglock_inspect.present.spans import Meaning

LOOK = Look()

_NAME = 200  # characters of a name that one line shows
_COMMAND = re.compile(
    r"""(?:^|(?<=:\ ))(?:
            pglock-inspect\ (?:'[^']*'|"[^"]*"|,(?!\ )|[^,;'"])+ |
            (?:SELECT|GRANT|ROLLBACK\ PREPARED)\ .+
        )""",
    re.VERBOSE | re.DOTALL,
)


class Mark(NamedTuple):
    """A state in a word, with what stands beside it: never by color alone."""

    word: str
    meaning: Meaning
    sign: str


class Bar(NamedTuple):
    """An age against its limit, in seconds."""

    age: float
    limit: float
    meaning: Meaning
    text: str


class JobRow(NamedTuple):
    """``held`` is how long, where it is held; ``limit`` and ``every`` are durations in words."""

    id: str
    mark: Mark
    name: str
    database: str | None
    rules: tuple[str, ...]
    held: str | None
    limit: str | None
    bar: Bar | None
    waiters: int
    waited: str | None
    last_held: str
    last_held_at: str | None
    every: str | None
    due: Bar | None


class LockRow(NamedTuple):
    """``age`` is how long it has been held or waited for; ``who`` and ``session`` are parts of a line."""

    id: str
    mark: Mark
    name: str
    key: str | None
    database: str | None
    rules: tuple[str, ...]
    age: str
    evidence: str | None
    limit: str | None
    bar: Bar | None
    waiters: int
    blocked_by: str | None
    process: str
    who: tuple[str, ...]
    session: tuple[str, ...]
    query: str | None


class Step(NamedTuple):
    """Part of what to do; a command is there to be copied."""

    text: str
    is_command: bool


class FindingRow(NamedTuple):
    """``steps`` are what to do."""

    id: str
    mark: Mark
    rule: str
    summary: str
    evidence: str
    steps: tuple[Step, ...]


class Identities:
    """Ids of elements by which a browser finds again what is still there: each one once on a page."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def of(self, *parts: object) -> str:
        """Return the id of what ``parts`` identify."""
        identity = "x" + blake2s(repr(parts).encode(), digest_size=8).hexdigest()
        times = self._given[identity] = self._given.get(identity, 0) + 1
        return identity if times == 1 else f"{identity}-{times}"


def worst(severities: Iterable[Severity | None]) -> Severity | None:
    """Return the worst severity of some, None where there is none."""
    return max(filter(None, severities), key=SEVERITIES.index, default=None)


def mark_of(severity: Severity, word: str | None = None) -> Mark:
    """Return the mark of a severity: its own name, unless another word is to stand there."""
    return Mark(word or severity, severity, LOOK.glyphs.of(severity))


def job_row(
    identity: str, state: JobState, locks: list[Lock], findings: list[Finding], now: Instant
) -> JobRow:
    """Return the row of a job, of which ``locks`` are some and ``findings`` those that name it."""
    severity = worst([*(lock.severity for lock in locks), *(finding.severity for finding in findings)])
    rules = {rule for lock in locks for rule in lock.findings} | {finding.rule for finding in findings}
    longest = max((lock for lock in locks if lock.held), key=lambda lock: _seconds(lock) or 0.0, default=None)
    limit = None if state.job.long_lived else state.job.limits.max_held
    mark = _job_mark(state, severity, rules)
    since = None if state.last_held is None else max(seconds_between(state.last_held, now), 0.0)
    every = state.job.every
    return JobRow(
        id=identity,
        mark=mark,
        name=state.job.name[:_NAME],
        database=state.database,
        rules=tuple(sorted(rules - {mark.word.replace(" ", "-")})),
        held=_held(state, longest) if state.held else None,
        limit=None if limit is None else format_duration(limit),
        bar=_bar(state.held_seconds, limit, severity) if state.held else None,
        waiters=state.waiters,
        waited=None if state.wait_seconds is None else format_duration(state.wait_seconds),
        last_held="now" if state.held else "not seen yet" if since is None else f"{whole(since)} ago",
        last_held_at=None if state.last_held is None or state.held else moment(state.last_held),
        every=None if every is None else format_duration(every),
        due=None if state.held else _bar(since, every, severity),
    )


def _job_mark(state: JobState, severity: Severity | None, rules: Iterable[str]) -> Mark:
    if state.stale:
        return mark_of(severity or "warning", "stale")
    if state.held:
        word = "running" if state.held == 1 else f"running × {state.held:,}"  # noqa: RUF001
        return _state_mark(word, severity)
    for rule in ("missed", "never-seen"):
        if rule in rules:
            return mark_of(severity or "warning", rule.replace("-", " "))
    if state.waiters:
        return _state_mark("waited for", severity, waiting=True)
    return Mark("free", "quiet", "○")


def _state_mark(word: str, severity: Severity | None, *, waiting: bool = False) -> Mark:
    """Return the mark of a state; what is found is told by it from a warning on."""
    if severity in ("warning", "critical"):
        return mark_of(severity, word)
    return Mark(word, "info", "◔") if waiting else Mark(word, "good", "●")


def _held(state: JobState, longest: Lock | None) -> str:
    if longest and longest.held:
        return held_text(longest.held, LOOK)
    return UNKNOWN if state.held_seconds is None else format_duration(state.held_seconds)


def lock_row(identity: str, lock: Lock, *, query: bool) -> LockRow:
    """Return the row of a lock; with what its session runs only if ``query`` allows it."""
    session, prepared = lock.session, lock.prepared
    state = text_of(columns.STATE, lock)
    mark = _state_mark(state, lock.severity, waiting=not lock.granted)
    who: tuple[str | None, ...] = ()
    if prepared:
        process, who = f"prepared {prepared.gid!r}", (prepared.owner,)
    else:
        process = f"pid {lock.pid}"
        who = (session.application_name, session.user, session.client) if session else ()
    limit = lock.max_held if lock.granted else None
    blocked_by = "" if lock.granted else text_of(columns.BLOCKED_BY, lock)
    return LockRow(
        id=identity,
        mark=mark,
        name=label(lock)[:_NAME],
        key=str(lock.key) if lock.name else None,
        database=lock.database,
        rules=tuple(sorted(lock.findings)),
        age=text_of(columns.FOR, lock),
        evidence=text_of(columns.EVIDENCE, lock) if lock.held else None,
        limit=None if limit is None else format_duration(limit),
        bar=_bar(_seconds(lock), limit, lock.severity),
        waiters=lock.waiters,
        blocked_by=None if blocked_by in {"", LOOK.glyphs.nothing} else blocked_by,
        process=process,
        who=tuple(part[:_NAME] for part in who if part),
        session=() if session is None else tuple(filter(None, (session.state, session.wait_event))),
        query=session.query if query and session and session.query else None,
    )


def finding_row(identity: str, finding: Finding, target: str | None) -> FindingRow:
    """Return the row of a finding; its commands are for ``target``, where they have to be told which one."""
    return FindingRow(
        id=identity,
        mark=mark_of(finding.severity),
        rule=finding.rule,
        summary=finding.summary,
        evidence=finding.evidence,
        steps=tuple(_steps(finding.suggestion, target)),
    )


def _steps(suggestion: str, target: str | None) -> Iterator[Step]:
    end = 0
    for found in _COMMAND.finditer(suggestion):
        if found.start() > end:
            yield Step(suggestion[end : found.start()], is_command=False)
        for_target = f" --target {shlex.quote(target)}" if target and found[0].startswith("pglock") else ""
        yield Step(found[0] + for_target, is_command=True)
        end = found.end()
    if end < len(suggestion):
        yield Step(suggestion[end:], is_command=False)


def text_of(column: Column, lock: Lock) -> str:
    """Return what the terminal shows in a column."""
    return "".join(text for text, _ in column.cell(lock, column.most, LOOK))


def moment(instant: Instant) -> str:
    """Return an instant for a reader."""
    return f"{to_datetime(instant):%Y-%m-%d %H:%M:%S} UTC"


def whole(seconds: float) -> str:
    """Return a duration without parts of a second."""
    return format_duration(float(int(seconds)))


def _seconds(lock: Lock) -> float | None:
    return lock.held.seconds if lock.held else None


def _bar(age: float | None, limit: float | None, severity: Severity | None) -> Bar | None:
    if age is None or not limit:
        return None
    over = age >= limit
    meaning: Meaning = ("critical" if severity == "critical" else "warning") if over else "good"
    part = f"{age / limit:.1f} times its limit" if over else f"{age / limit:.0%} of its limit"
    return Bar(age, limit, meaning, part)

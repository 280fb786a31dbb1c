"""The configured jobs, also those that nobody holds: when each ran last, and when it is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pglock_inspect.durations import format_duration
from pglock_inspect.model import SEVERITIES, seconds_between, to_datetime
from pglock_inspect.present import columns
from pglock_inspect.present.columns import Column, bar
from pglock_inspect.top.details import describe, told_findings
from pglock_inspect.top.filter import Facts
from pglock_inspect.top.layout import Plan
from pglock_inspect.top.sections import Entry, Section
from pglock_inspect.top.timeline import recent
from pglock_inspect.top.view import Order, Row, View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.model import Instant, JobState, Lock, Report, Severity
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Meaning, Span
    from pglock_inspect.top.view import Sight


class Scheduled(NamedTuple):
    """A job as of a report taken at ``now``; ``severity`` is the worst of what was found about it."""

    state: JobState
    now: Instant
    severity: Severity | None

    @property
    def ran_ago(self) -> float | None:
        """Seconds since it was last seen to hold its lock."""
        last = self.state.last_held
        return None if last is None else max(seconds_between(last, self.now), 0.0)

    @property
    def due_in(self) -> float | None:
        """Seconds until it is expected to have run again, below 0 where that is over."""
        every, ran_ago = self.state.job.every, self.ran_ago
        return None if every is None or ran_ago is None else every - ran_ago

    @property
    def doing(self) -> str:
        """What it does, in a word."""
        return "held" if self.state.held else "waiting" if self.state.waiters else "free"

    @property
    def max_held(self) -> float | None:
        """How long it may hold its lock; None for one that holds it for life."""
        return None if self.state.job.long_lived else self.state.job.limits.max_held


def _items(sight: Sight) -> list[Scheduled]:
    report = sight.report
    worst = _worst(report)
    return sorted(
        (Scheduled(state, report.taken_at, worst.get(state.job.name)) for state in report.jobs),
        key=_worst_first,
    )


def _worst(report: Report) -> dict[str, Severity]:
    worst: dict[str, Severity] = {}
    for finding in sorted(report.findings, key=lambda finding: SEVERITIES.index(finding.severity)):
        if finding.job:
            worst[finding.job] = finding.severity
    return worst


def _worst_first(job: Scheduled) -> tuple[int, bool, str, str]:
    rank = -SEVERITIES.index(job.severity) - 1 if job.severity else 0
    return rank, not job.state.held, job.state.job.name.casefold(), job.state.database or ""


def _mark(job: Scheduled, _width: int, look: Look) -> list[Span]:
    return [(look.glyphs.of(job.severity), job.severity or "text")]


def _job(job: Scheduled, _width: int, look: Look) -> list[Span]:
    urgent = job.severity in {"critical", "warning"}
    return [(look.text(job.state.job.name), job.severity if urgent and job.severity else "strong")]


def _state(job: Scheduled, _width: int, _look: Look) -> list[Span]:
    meanings: dict[str, Meaning] = {"held": "text", "waiting": "info", "free": "quiet"}
    number = f" {job.state.held}x" if job.state.held > 1 else ""
    return [(job.doing + number, meanings[job.doing])]


def _for(job: Scheduled, _width: int, look: Look) -> list[Span]:
    if not job.state.held:
        return columns.nothing(look)
    seconds = job.state.held_seconds
    return [(columns.UNKNOWN, "quiet") if seconds is None else (format_duration(seconds), "text")]


def _of_max(job: Scheduled, width: int, look: Look) -> list[Span]:
    if job.max_held is None:
        return columns.nothing(look)
    limit = f" {format_duration(job.max_held)}"
    ratio = (job.state.held_seconds or 0.0) / job.max_held if job.max_held else 0.0
    meaning: Meaning = "good"
    if ratio >= 1:
        meaning = "critical" if job.severity == "critical" else "warning"
    return [*bar(ratio, width - len(limit), meaning, look), (limit, "quiet")]


def _waiters(job: Scheduled, _width: int, look: Look) -> list[Span]:
    return [(str(job.state.waiters), "info")] if job.state.waiters else columns.nothing(look)


def last_run(job: Scheduled) -> str:
    """Return when a job was last seen to run."""
    if job.state.held:
        return "now"
    return "not seen" if job.ran_ago is None else f"{format_duration(job.ran_ago)} ago"


def next_run(job: Scheduled) -> str | None:
    """Return when a job is expected next; None where nothing tells."""
    if job.due_in is None:
        return None
    late = job.due_in < 0
    return f"{format_duration(abs(job.due_in))} late" if late else f"in {format_duration(job.due_in)}"


def _last_run(job: Scheduled, _width: int, _look: Look) -> list[Span]:
    return [(last_run(job), "quiet" if job.ran_ago is None else "text")]


def _next_run(job: Scheduled, _width: int, look: Look) -> list[Span]:
    text = next_run(job)
    if text is None:
        return columns.nothing(look)
    late = job.due_in is not None and job.due_in < 0
    return [(text, "warning" if late else "text")]


def _every(job: Scheduled, _width: int, look: Look) -> list[Span]:
    every = job.state.job.every
    return columns.nothing(look) if every is None else [(format_duration(every), "quiet")]


def _database(job: Scheduled, _width: int, look: Look) -> list[Span]:
    return [(look.text(job.state.database), "text")] if job.state.database else columns.nothing(look)


MARK = Column("", 1, 1, _mark)
JOB = Column("JOB", 18, 40, _job)
STATE = Column("STATE", 8, 10, _state)
FOR = Column("FOR", 11, 11, _for, right=True)
MAX = Column("OF MAX", 14, 24, _of_max)
WAITERS = Column("WAIT", 4, 5, _waiters, right=True)
LAST_RUN = Column("LAST RUN", 15, 15, _last_run, right=True)
NEXT_RUN = Column("NEXT RUN", 16, 16, _next_run, right=True)
EVERY = Column("EVERY", 8, 8, _every, right=True)
DATABASE = Column("DATABASE", 8, 16, _database)


def _lock_of(row: Row) -> Lock | None:
    """Return the worst lock of a job; None while it is free."""
    state: JobState = row.item.state

    def is_its(lock: Lock) -> bool:
        return lock.name is not None and lock.name.job == state.job and lock.database == state.database

    return next(row.sight.locks.where(is_its), None)


def _describe(row: Row, look: Look) -> list[Section]:
    lock = _lock_of(row)
    job = Section("Job", list(_entries(row.item)))
    if lock is None:
        return [job, *_free(row, look)]
    why, *more = describe(lock, row.sight, look)
    return [why, job, *more]


def _free(row: Row, look: Look) -> list[Section]:
    report, job = row.sight.report, row.item.state.job
    found = [finding for finding in report.findings if finding.job == job.name]
    holds = [hold for hold in row.sight.past if hold.lock.name and hold.lock.name.job == job]
    sections = [Section("Findings", list(told_findings(found, look))), recent(holds, report, look)]
    return [section for section in sections if section.entries]


def _entries(job: Scheduled) -> Iterator[Entry]:
    yield Entry("state", job.doing, "strong")
    yield Entry("last run", last_run(job))
    expected = next_run(job)
    if job.state.job.every is not None:
        yield Entry("expected", f"every {format_duration(job.state.job.every)}")
        late = job.due_in is not None and job.due_in < 0
        yield Entry("next run", expected or "not known: no run was seen yet", "warning" if late else "text")
    yield Entry("limit", "none" if job.max_held is None else format_duration(job.max_held))
    yield Entry("max wait", format_duration(job.state.job.limits.max_wait))


def _record(row: Row) -> dict[str, Any]:
    job: Scheduled = row.item
    state = job.state
    return {
        "job": state.job.name,
        "database": state.database,
        "state": job.doing,
        "held": state.held,
        "waiters": state.waiters,
        "stale": state.stale,
        "held_seconds": state.held_seconds,
        "wait_seconds": state.wait_seconds,
        "max_held": job.max_held,
        "every": state.job.every,
        "last_held": None if state.last_held is None else to_datetime(state.last_held).isoformat(),
        "next_expected_seconds": job.due_in,
        "severity": job.severity,
    }


def _or_last(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


VIEW = View(
    name="jobs",
    nothing="No job is configured: see pglock-inspect init.",
    plan=Plan(
        mark=MARK,
        main=JOB,
        from_left=(JOB, STATE, FOR, MAX, WAITERS, LAST_RUN, NEXT_RUN, EVERY, DATABASE),
        always=(STATE, LAST_RUN),
        if_room=(FOR, NEXT_RUN, WAITERS, MAX, EVERY, DATABASE),
        widened=((JOB, 28), (MAX, 24), (JOB, 40), (DATABASE, 16)),
    ),
    orders=(
        Order("worst first", _worst_first),
        Order("job", lambda job: job.state.job.name.casefold(), JOB),
        Order("state", lambda job: job.doing, STATE),
        Order("longest first", lambda job: -(job.state.held_seconds or 0.0), FOR),
        Order("waiters", lambda job: -job.state.waiters, WAITERS),
        Order("last run", lambda job: _or_last(job.ran_ago), LAST_RUN),
        Order("next run", lambda job: _or_last(job.due_in), NEXT_RUN),
    ),
    items=_items,
    identity=lambda job: (job.state.job.name, job.state.job.database, job.state.database),
    facts=lambda job: Facts(job=job.state.job.name, database=job.state.database),
    lock_of=_lock_of,
    title=lambda job: job.state.job.name,
    describe=_describe,
    record=_record,
)

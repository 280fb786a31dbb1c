"""The line of a Nagios plug-in, which CI logs and people read too.

``STATUS - what | performance data``, then a line for each thing to do and for what else was found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.present.text import printable
from pglock_inspect.present.verdict import worst

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.model import Finding, JobState
    from pglock_inspect.present.verdict import Verdict

_LIMIT = 500  # characters of a sentence; plug-ins' output is cut at 4,096 bytes


def judged(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts, one per target."""
    status = worst(verdict.status for verdict in verdicts)
    several = len(verdicts) > 1
    headlines = [
        (f"{verdict.report.target}: " if several else "") + _headline(verdict) for verdict in verdicts
    ]
    measured = " ".join(
        datum
        for verdict in verdicts
        if verdict.report.server
        for datum in _performance(verdict, f"{verdict.report.target} " if several else "")
    )
    first = f"PGLOCK {status.name} - {'; '.join(headlines)}" + (f" | {measured}" if measured else "")
    return "\n".join((first, *(line for verdict in verdicts for line in _details(verdict))))


def _headline(verdict: Verdict) -> str:
    if verdict.error is not None:
        return _safe(verdict.error)
    if verdict.alarms:
        more = f" (and {len(verdict.alarms) - 1} more)" if len(verdict.alarms) > 1 else ""
        return _safe(verdict.alarms[0].summary) + more
    held, waiting = _totals(verdict)
    return f"{held} held, {waiting} waiting"


def _details(verdict: Verdict) -> Iterator[str]:
    for number, alarm in enumerate(verdict.alarms):
        if number:
            yield _sentence(alarm)
        yield f"  do: {_safe(alarm.suggestion)}"
    for finding in verdict.report.findings:
        if finding.severity == "info" and finding.key is None and not finding.about:
            yield _sentence(finding)


def _sentence(finding: Finding) -> str:
    return f"{finding.severity.upper()} - {_safe(finding.summary)}"


def _performance(verdict: Verdict, prefix: str) -> Iterator[str]:
    held, waiting = _totals(verdict)
    yield _datum(f"{prefix}held", str(held))
    yield _datum(f"{prefix}waiting", str(waiting))
    for severity in ("critical", "warning"):
        count = sum(alarm.severity == severity for alarm in verdict.alarms)
        yield _datum(f"{prefix}{severity}", str(count))
    by_job: dict[str, list[JobState]] = {}
    for state in verdict.report.jobs:
        by_job.setdefault(state.job.name, []).append(state)
    for name, states in by_job.items():
        yield from _job_performance(states, f"{prefix}{name}")


def _job_performance(states: Sequence[JobState], label: str) -> Iterator[str]:
    """Yield what a job did in all its databases: labels must not change with where it is held."""
    job = states[0].job
    held = [state.held_seconds for state in states if state.held]
    waited = [state.wait_seconds for state in states if state.waiters]
    max_held = None if job.long_lived else job.limits.max_held
    yield _datum(f"{label} held", _longest(held), critical=max_held)
    yield _datum(f"{label} waited", _longest(waited), warning=job.limits.max_wait)
    yield _datum(f"{label} waiters", str(sum(state.waiters for state in states)))


def _longest(ages: Sequence[float | None]) -> str:
    if not ages:
        return "0s"
    known = [age for age in ages if age is not None]
    return f"{max(known):.3f}s" if known else "U"  # U: a plug-in's word for unknown


def _datum(label: str, value: str, *, warning: float | None = None, critical: float | None = None) -> str:
    quoted = _safe(label).replace("=", r"\x3d").replace("'", "''")
    return f"'{quoted}'={value};{_limit(warning)};{_limit(critical)};0"


def _limit(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3f}".rstrip("0").rstrip(".")


def _totals(verdict: Verdict) -> tuple[int, int]:
    totals = verdict.report.totals.values()
    return sum(total.held for total in totals), sum(total.waiting for total in totals)


def _safe(text: str) -> str:
    return printable(text, _LIMIT).replace("|", r"\x7c")

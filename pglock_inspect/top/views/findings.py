"""What is worth telling, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pglock_inspect.model import SEVERITIES
from pglock_inspect.present import columns
from pglock_inspect.present.columns import Column
from pglock_inspect.present.evidence import findings_of
from pglock_inspect.top.details import describe as describe_lock, told_findings
from pglock_inspect.top.filter import Facts
from pglock_inspect.top.layout import Plan
from pglock_inspect.top.sections import Section
from pglock_inspect.top.view import Order, Row, View

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pglock_inspect.model import Finding, Lock
    from pglock_inspect.present.look import Look
    from pglock_inspect.present.spans import Span


def _mark(finding: Finding, _width: int, look: Look) -> list[Span]:
    return [(look.glyphs.of(finding.severity), finding.severity)]


def _rule(finding: Finding, _width: int, _look: Look) -> list[Span]:
    return [(finding.rule, finding.severity)]


def _pid(finding: Finding, _width: int, look: Look) -> list[Span]:
    return columns.nothing(look) if finding.pid is None else [(str(finding.pid), "text")]


def _summary(finding: Finding, _width: int, look: Look) -> list[Span]:
    return [(look.text(finding.summary), "text")]


def _todo(finding: Finding, _width: int, look: Look) -> list[Span]:
    return [(look.text(finding.suggestion), "quiet")]


MARK = Column("", 1, 1, _mark)
RULE = Column("RULE", 14, 19, _rule)
PID = Column("PID", 7, 7, _pid, right=True)
WHAT = Column("WHAT", 18, 10_000, _summary)
TO_DO = Column("TO DO", 60, 60, _todo)


def _worst_first(finding: Finding) -> tuple[int, str, str, int, str]:
    rank = -SEVERITIES.index(finding.severity)
    return rank, finding.rule, finding.job or "", finding.pid or 0, finding.summary


def _identity(finding: Finding) -> Hashable:
    return finding.rule, finding.job, finding.key, finding.database, finding.pid


def _facts(finding: Finding) -> Facts:
    return Facts(
        job=finding.job,
        database=finding.database,
        more=f"{finding.rule}\n{finding.severity}\n{finding.summary}",
    )


def _lock_of(row: Row) -> Lock | None:
    """Return the lock that a finding is about; of several, the first."""
    finding: Finding = row.item
    about = row.sight.locks.where(lambda lock: finding.rule in lock.findings)
    return next((lock for lock in about if finding in findings_of(lock, row.sight.report)), None)


def _describe(row: Row, look: Look) -> list[Section]:
    lock = _lock_of(row)
    told = Section("Finding", list(told_findings([row.item], look)))
    about = describe_lock(lock, row.sight, look) if lock else []
    return [told, *(section for section in about if section.title not in {"Findings", "Server"})]


def _record(row: Row) -> dict[str, Any]:
    finding: Finding = row.item
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "job": finding.job,
        "database": finding.database,
        "key": None if finding.key is None else str(finding.key),
        "pid": finding.pid,
        "summary": finding.summary,
        "evidence": finding.evidence,
        "suggestion": finding.suggestion,
    }


VIEW = View(
    name="findings",
    nothing="Nothing was found: all is as it should be.",
    plan=Plan(
        mark=MARK,
        from_left=(RULE, PID, WHAT, TO_DO),
        main=RULE,
        always=(WHAT,),
        if_room=(PID, TO_DO),
        widened=((RULE, 19), (WHAT, WHAT.most)),
    ),
    orders=(
        Order("worst first", _worst_first),
        Order("rule", lambda finding: finding.rule, RULE),
        Order("job", lambda finding: (finding.job is None, finding.job)),
        Order("pid", lambda finding: finding.pid or 0, PID),
    ),
    items=lambda sight: sorted(sight.report.findings, key=_worst_first),
    identity=_identity,
    facts=_facts,
    lock_of=_lock_of,
    title=lambda finding: finding.rule,
    describe=_describe,
    record=_record,
)

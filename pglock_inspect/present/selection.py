"""Part of a report: some locks, and what was found about them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pglock_inspect.model import Totals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.keys import AdvisoryKey
    from pglock_inspect.model import Finding, JobState, Lock, Name, Report


class Selection(Struct, frozen=True):
    """Which locks are wanted; what is empty or false selects nothing away.

    ``stale`` keeps locks that were found stale, ``waiting`` those that somebody waits for, and who waits.
    """

    databases: frozenset[str] = frozenset()
    jobs: frozenset[str] = frozenset()
    stale: bool = False
    waiting: bool = False

    def of(self, report: Report) -> Report:
        """Return a report of the selected locks alone, with the findings about them or about no lock."""
        if self == Selection():
            return report
        locks = tuple(lock for lock in report.locks if self._takes(lock))
        by_process = {(lock.pid, lock.key) for lock in locks}
        by_database = {(lock.database, lock.key) for lock in locks}
        return replace(
            report,
            list_locks=lambda _: locks,
            list_alike=None,
            jobs=tuple(state for state in report.jobs if self._takes_job(state)),
            totals=count(locks),
            findings=tuple(
                finding
                for finding in report.findings
                if self._takes_finding(finding, by_process, by_database)
            ),
        )

    def _takes(self, lock: Lock) -> bool:
        return (
            (not self.databases or lock.database in self.databases)
            and (not self.jobs or (lock.name is not None and self._takes_name(lock.name)))
            and (not self.stale or "stale" in lock.findings)
            and (not self.waiting or not lock.granted or lock.waiters > 0)
        )

    def _takes_name(self, name: Name) -> bool:
        """Whether a name is selected: its own text, or the job whose pattern or first half it fits."""
        return name.text in self.jobs or (name.job is not None and name.job.name in self.jobs)

    def _takes_job(self, state: JobState) -> bool:
        return (not self.jobs or state.job.name in self.jobs) and (
            not self.databases or state.database is None or state.database in self.databases
        )

    def _takes_finding(
        self,
        finding: Finding,
        by_process: set[tuple[int | None, AdvisoryKey]],
        by_database: set[tuple[str | None, AdvisoryKey]],
    ) -> bool:
        if finding.about:
            return any(
                (group.rows.pid, group.rows.key(packed)) in by_process
                for group, keys in finding.about
                for packed in keys
            )
        if finding.key is not None:
            return (finding.database, finding.key) in by_database
        if finding.job is not None:  # a job that nobody holds
            return finding.job in self.jobs
        return True


def count(locks: tuple[Lock, ...]) -> Mapping[str, Totals]:
    """Return the numbers of locks by database, as `Report.totals` has them."""
    totals: dict[str, Totals] = {}
    for lock in locks:
        before = totals.get(lock.database or "", Totals())
        totals[lock.database or ""] = Totals(
            held=before.held + lock.granted,
            waiting=before.waiting + (not lock.granted),
            unnamed=before.unnamed + (lock.name is None),
        )
    return totals

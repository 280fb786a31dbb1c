"""All that presenters make of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.present import csv, github, json, jsonl, junit, nagios, prometheus, table, why
from pglock_inspect.present.account import accounts
from pglock_inspect.present.paper import Paper
from pglock_inspect.present.verdict import judge

if TYPE_CHECKING:
    from pglock_inspect.model import Report


def presented(report: Report) -> list[str | bytes]:
    verdict = judge(report)
    told = accounts(report, [(lock.database, lock.key) for lock in report.locks])
    return [
        *(form.once([report], Paper()) for form in (table, json, jsonl, csv)),
        *(form.judged([verdict]) for form in (nagios, json, junit, github, prometheus)),
        why.as_text([("here", told)], Paper()),
        why.as_json([("here", told)]),
    ]

"""Workflow commands of GitHub Actions, which become annotations.

Every line is a command: the runner also looks for old commands inside of other lines, which a name or a
query could then hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.present.text import printable
from pglock_inspect.present.verdict import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.present.verdict import Verdict

_COMMANDS = {"warning": "warning", "critical": "error"}


def judged(verdicts: Sequence[Verdict]) -> str:
    """Return an annotation per alarm, or one that says that there is none."""
    return "\n".join(line for verdict in verdicts for line in _lines(verdict))


def _lines(verdict: Verdict) -> Iterator[str]:
    target = verdict.report.target
    if verdict.error is not None:
        yield _annotation("error", f"{verdict.status.name} {target}", verdict.error)
    elif verdict.status is Status.OK:
        totals = verdict.report.totals.values()
        held, waiting = sum(total.held for total in totals), sum(total.waiting for total in totals)
        yield _annotation("notice", f"OK {target}", f"{held} held, {waiting} waiting")
    for alarm in verdict.alarms:
        text = f"{alarm.summary}\n{alarm.evidence}\ndo: {alarm.suggestion}"
        yield _annotation(_COMMANDS[alarm.severity], f"{alarm.rule} {target}", text)


def _annotation(command: str, title: str, text: str) -> str:
    lines = map(_data, text.split("\n"))
    return f"::{command} title={_data(title).replace(':', '%3A').replace(',', '%2C')}::{'%0A'.join(lines)}"


def _data(text: str) -> str:
    return printable(text).replace("%", "%25")

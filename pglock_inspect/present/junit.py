"""JUnit XML, which CI systems show as tests: one per configured job, and one per alarm about anything else.

The text is ASCII; what XML cannot hold is written as an escape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from pglock_inspect.present.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pglock_inspect.model import Finding
    from pglock_inspect.present.verdict import Verdict

_SUITE = "pglock-inspect"


def judged(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts, one test suite per target."""
    root = ET.Element("testsuites", name=_SUITE)
    for verdict in verdicts:
        target = printable(verdict.report.target)
        cases = [*_cases(verdict, f"{_SUITE}.{target}")]
        suite = ET.SubElement(
            root,
            "testsuite",
            name=target,
            tests=str(len(cases)),
            failures=str(sum(case.find("failure") is not None for case in cases)),
            errors=str(sum(case.find("error") is not None for case in cases)),
        )
        suite.extend(cases)
    ET.indent(root)
    text: bytes = ET.tostring(root, encoding="us-ascii", xml_declaration=True)
    return text.decode("ascii")


def _cases(verdict: Verdict, classname: str) -> Iterator[ET.Element]:
    by_name: dict[str, list[Finding]] = {}
    if verdict.report.server:
        by_name = {state.job.name: [] for state in verdict.report.jobs}
    for alarm in verdict.alarms:
        by_name.setdefault(alarm.job or _title(alarm), []).append(alarm)
    for name, alarms in by_name.items():
        case = ET.Element("testcase", classname=classname, name=printable(name))
        for alarm in alarms:
            failure = ET.SubElement(case, "failure", type=alarm.severity, message=printable(alarm.summary))
            failure.text = "\n".join(
                map(printable, (alarm.summary, alarm.evidence, f"do: {alarm.suggestion}"))
            )
        yield case
    if verdict.error is not None or not by_name:
        case = ET.Element("testcase", classname=classname, name="server")
        if verdict.error is not None:
            ET.SubElement(case, "error", type=verdict.status.name, message=printable(verdict.error))
        yield case


def _title(finding: Finding) -> str:
    return finding.rule if finding.key is None else f"{finding.rule}: key {finding.key}"

"""The page about findings tells of every rule, and what it says is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pglock_inspect.durations import parse_duration
from pglock_inspect.findings import RULES

if TYPE_CHECKING:
    from pglock_inspect.findings import Rule

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/findings.md").read_text()
RULE_PART, _, ALERT_PART = PAGE.partition("\n# When nobody looks\n")
SECTIONS, OTHERS = (
    dict(re.findall(r"^## ([\w-]+)\n(.*?)(?=^## |\Z)", part, re.MULTILINE | re.DOTALL))
    for part in (RULE_PART, ALERT_PART)
)
ASPECTS = ["Fires", "Severity", "Evidence", "Do", "Tune"]


def test_every_rule_has_a_section_and_only_rules_have_one() -> None:
    assert sorted(SECTIONS) == sorted(rule.name for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_section_says_all_there_is_to_say(rule: Rule) -> None:
    assert re.findall(r"^- \*\*(\w+)\*\*", SECTIONS[rule.name], re.MULTILINE) == ASPECTS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_each_threshold_is_that_of_the_rule(rule: Rule) -> None:
    tuning = SECTIONS[rule.name].partition("**Tune**")[2]
    written = re.findall(r"`threshold = (.*?)`", tuning)
    match rule.unit:
        case None:
            assert not written
        case "seconds":
            assert [parse_duration(text.strip('"')) for text in written] == [rule.threshold]
        case _:
            assert [float(text) for text in written] == [rule.threshold]


def test_every_runbook_leads_somewhere() -> None:
    alerts = (ROOT / "pglock_inspect/data/alerts.yml").read_text()
    runbooks = set(re.findall(r"docs/findings\.md#([\w-]+)", alerts))
    assert runbooks == OTHERS.keys() | (runbooks & SECTIONS.keys())

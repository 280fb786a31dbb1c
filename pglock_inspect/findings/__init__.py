"""Findings: what is worth telling about a scene. One small pure function per rule, and the list of rules."""

from __future__ import annotations

from pglock_inspect.findings.judge import RULES, judge
from pglock_inspect.findings.rule import Rule
from pglock_inspect.findings.scene import Scene

__all__ = ["RULES", "Rule", "Scene", "judge"]

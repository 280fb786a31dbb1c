"""Severities that a command line gives to rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import click
from msgspec.structs import replace

from pglock_inspect.config.problems import suggestion
from pglock_inspect.findings import RULES
from pglock_inspect.model import RuleSettings, Severity
from pglock_inspect.present.expectations import EXPECTATIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Level = Severity | Literal["off"]
_LEVELS: tuple[Level, ...] = (*get_args(Severity), "off")


class Override(NamedTuple):
    """A rule, and the severity of whatever it finds."""

    rule: str
    level: Level


def parse_override(written: str) -> Override:
    """Return what ``RULE=LEVEL`` says. Raises `click.BadParameter`."""
    rule, _, level = written.partition("=")
    rules = [*(rule.name for rule in RULES), *EXPECTATIONS]
    if rule not in rules:
        raise click.BadParameter(f"{rule!r} is no rule: {suggestion(rule, rules)}")
    for known in _LEVELS:
        if level == known:
            return Override(rule, known)
    raise click.BadParameter(f"{written!r} has no severity: write {rule}= and one of {', '.join(_LEVELS)}")


def override(rules: Mapping[str, RuleSettings], overrides: Iterable[Override]) -> Mapping[str, RuleSettings]:
    """Return the settings of rules with other severities."""
    changed = dict(rules)
    for rule, level in overrides:
        changed[rule] = replace(changed.get(rule, RuleSettings()), severity=level)
    return changed

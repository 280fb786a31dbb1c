"""What one file changes about rules."""

from __future__ import annotations

from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any

from pglock_inspect.config.problems import suggestion
from pglock_inspect.config.tables import RuleTable, Seconds, read_table
from pglock_inspect.findings import RULES, Rule
from pglock_inspect.model import RuleSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.config.problems import Place

_MOST = 10**9


def read_rules(tables: Mapping[str, Any], file: Place) -> dict[str, RuleSettings]:
    """Return the settings in ``[rules.NAME]`` by rule. Raises `ConfigError`."""
    known = {rule.name: rule for rule in RULES}
    settings = {}
    for name, written in tables.items():
        if name not in known:
            raise file.inside("rules").problem(f"{shortened(name)} is no rule: {suggestion(name, known)}")
        place = file.inside(f"rules.{name}")
        table = read_table(written, RuleTable, place)
        settings[name] = RuleSettings(
            severity=table.severity,
            threshold=None if table.threshold is None else _threshold(table.threshold, known[name], place),
        )
    return settings


def _threshold(written: float | str, rule: Rule, place: Place) -> float:
    match rule.unit:
        case None:
            what = "is not for this rule, which has none: remove it"
        case "seconds":
            try:
                return float(Seconds.read(written))
            except ValueError as error:
                what = str(error)
        case "number":
            if isinstance(written, int) and 0 < written < _MOST:
                return float(written)
            what = "must be a whole number above 0"
        case "share":
            if not isinstance(written, str) and 0 < written <= 1:
                return float(written)
            what = "must be a share above 0 and up to 1, such as 0.25"
    raise place.problem(what, key="threshold")

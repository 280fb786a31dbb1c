"""The reference of the configuration says what the code does."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pglock_inspect.config import Settings, load_settings
from pglock_inspect.config.tables import TABLES
from pglock_inspect.durations import parse_duration
from pglock_inspect.findings import RULES
from pglock_inspect.model import Job

REFERENCE = Path(__file__).parents[2].joinpath("docs", "configuration.md").read_text()
UNITS = {"number": "number", "seconds": "duration", "share": "share"}


def section(heading: str) -> str:
    return REFERENCE.partition(f"## `{heading}`\n")[2].partition("\n## ")[0]


def table(text: str, first_heading: str) -> list[list[str]]:
    """Return the cells of the rows of a table, without its head."""
    lines = text.partition(f"| {first_heading} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def toml(code: str) -> object:
    return tomllib.loads(f"value = {code.strip('`')}")["value"]


@pytest.mark.parametrize("heading", TABLES)
def test_every_key_is_in_the_reference(heading: str) -> None:
    keys = [row[0].strip("`") for row in table(section(heading), "key")]
    assert keys == list(TABLES[heading].__struct_fields__)


def test_the_defaults_are_those_of_the_code() -> None:
    settings = Settings()
    defaults = {key.strip("`"): default for key, _, default, _ in table(section("[defaults]"), "key")}
    for key in ("max_held", "max_wait", "interval"):
        documented = parse_duration(str(toml(defaults.pop(key))))
        assert documented == getattr(settings if key == "interval" else settings.limits, key)
    assert defaults.pop("names_query") == "none"
    assert settings.names_query is None
    for key, default in defaults.items():
        assert toml(default) == getattr(settings, key)


def test_required_keys_are_those_of_the_code() -> None:
    for heading, shape in TABLES.items():
        required = [row[0].strip("`") for row in table(section(heading), "key") if row[2] == "required"]
        assert required == list(shape.__struct_fields__[: -len(shape.__struct_defaults__) or None])


def test_every_threshold_is_in_the_reference() -> None:
    documented = {
        rule.strip("`"): (unit, parse_duration(str(toml(default))) if unit == "duration" else toml(default))
        for rule, unit, default, _ in table(section("[rules.NAME]"), "rule")
    }
    assert documented == {rule.name: (UNITS[rule.unit], rule.threshold) for rule in RULES if rule.unit}


def test_every_way_to_write_a_key_works(tmp_path: Path) -> None:
    ways = [written.strip("`") for written, _ in table(section("[[jobs]]"), "written")]
    assert ways == ["42", "[42, 7]", '[42, "*"]', '"4294967295/2337752054/1"']
    file = tmp_path / "own.toml"
    for way in ways:
        file.write_text(f'jobs = [{{name = "a", key = {way}}}]')
        (job,) = load_settings(config=file, environ={}, cwd=tmp_path).jobs
        assert job != Job("a")

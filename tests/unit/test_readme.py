"""What the first pages say is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pglock_inspect.config import load_settings
from pglock_inspect.demo.scene import SCENE
from pglock_inspect.findings import RULES
from tests.support.command import parse

ROOT = Path(__file__).parents[2]
README, CONTRIBUTING = (ROOT.joinpath(name).read_text() for name in ("README.md", "CONTRIBUTING.md"))


@pytest.mark.parametrize("line", re.findall(r"^pglock-inspect .*", README, re.MULTILINE))
def test_every_command_is_understood(line: str) -> None:
    parse(line)


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_link_leads_somewhere(text: str) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        assert ROOT.joinpath(link).exists(), link


def test_the_excerpt_shows_jobs_and_findings_of_the_demo() -> None:
    excerpt = README.partition("   JOB  ")[2].partition("\n```")[0]
    rows, _, findings = excerpt.partition("\n\n")
    jobs = {part.job for part in SCENE}
    shown = {re.split(" {2,}", line)[1] for line in rows.splitlines()[1:]}
    assert len(shown) > 4
    assert shown <= jobs
    assert "is stale" in findings


def test_the_example_configuration_loads(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    file = tmp_path / "pglock-inspect.toml"
    file.write_text(example)
    assert len(load_settings(config=None, environ={}, cwd=tmp_path).jobs) == example.count("[[jobs]]")


def test_every_place_on_the_map_exists() -> None:
    tables = "\n".join(line for line in CONTRIBUTING.splitlines() if line.startswith("| "))
    places = re.findall(r"`([\w/-]+(?:/|\.\w+))`", tables)
    assert len(places) > 20
    for place in places:
        if "NAME" not in place:
            assert ROOT.joinpath(place).exists() or ROOT.joinpath("pglock_inspect", place).exists(), place


def test_every_rule_is_a_file() -> None:
    files = {path.stem for path in ROOT.glob("pglock_inspect/findings/*.py")}
    assert {rule.name.replace("-", "_") for rule in RULES} <= files

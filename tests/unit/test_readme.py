"""What the first pages say is so."""

from __future__ import annotations

import re
from pathlib import Path

from pglock_inspect.demo.scene import SCENE
from pglock_inspect.findings import RULES

ROOT = Path(__file__).parents[2]
README, CONTRIBUTING = (ROOT.joinpath(name).read_text() for name in ("README.md", "CONTRIBUTING.md"))


def test_the_excerpt_shows_jobs_and_findings_of_the_demo() -> None:
    excerpt = README.partition("   JOB  ")[2].partition("\n```")[0]
    rows, _, findings = excerpt.partition("\n\n")
    jobs = {part.job for part in SCENE}
    shown = {re.split(" {2,}", line)[1] for line in rows.splitlines()[1:]}
    assert len(shown) > 4
    assert shown <= jobs
    assert "is stale" in findings


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

"""What docs/commands.md says is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pglock_inspect.cli import check, ls
from pglock_inspect.cli.app import COMMANDS
from pglock_inspect.present.paper import Paper
from pglock_inspect.present.table import lay_out
from tests.support.reports import HOLDER, PREPARED, WAITER

PAGE = Path(__file__).parents[3].joinpath("docs", "commands.md").read_text()


def part(heading: str) -> str:
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_every_command_has_its_part() -> None:
    headings = ", ".join(re.findall(r"^## (.*)", PAGE, re.MULTILINE)).split(", ")
    assert sorted(headings) == sorted(COMMANDS)


def test_every_column_is_explained() -> None:
    explained = re.findall(r"`([A-Z ]+)`", "".join(re.findall(r"^\|[^|]*\|", part("ls"), re.MULTILINE)))
    shown = [column.title for column, _ in lay_out([HOLDER, WAITER, PREPARED], Paper())]
    assert explained == [title for title in shown if title]


@pytest.mark.parametrize(("heading", "formats"), [("ls", ls.FORMATS), ("check", tuple(check.FORMATS))])
def test_every_format_is_explained(heading: str, formats: tuple[str, ...]) -> None:
    assert tuple(re.findall(r"^- `(\w+)`", part(heading), re.MULTILINE)) == formats

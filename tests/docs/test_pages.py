"""What holds of every page: what it links to is there, and what is made from the program is up to date."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from docs.__main__ import rendered
from pglock_inspect.config import load_settings
from tests.support.command import parse
from tests.support.pages import DOCS, PAGES, ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

LINKS = [
    pytest.param(page, link, id=f"{page.relative_to(ROOT)}: {link}")
    for page in PAGES
    for link in dict.fromkeys(re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text()))
]
CONFIGURATIONS = [
    pytest.param(block.text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page))
    if block.language == "toml"
]
MENTIONED = sorted(
    {
        command
        for page in PAGES
        for command in re.findall(r"`(pglock-inspect [a-z]+ [^`…]*)`", page.read_text().replace("\n", " "))
    }
)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "link"), LINKS)
def test_every_link_leads_somewhere(page: Path, link: str) -> None:
    file, _, anchor = link.partition("#")
    there = page.parent / file if file else page
    assert there.exists()
    assert not anchor or anchor in anchors(there)


def test_every_page_can_be_found_from_the_index() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (DOCS / "README.md").read_text()))
    assert linked == {page.name for page in DOCS.glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("command", MENTIONED)
def test_every_command_in_a_sentence_is_understood(command: str) -> None:
    parse(command)


@pytest.mark.parametrize("text", CONFIGURATIONS)
def test_every_configuration_loads(text: str, tmp_path: Path) -> None:
    file = tmp_path / ("pyproject.toml" if "[tool." in text else "pglock-inspect.toml")
    file.write_text(text)
    config = None if file.name == "pyproject.toml" else file
    settings = load_settings(config=config, environ={"PROD_PASSWORD": "secret"}, cwd=tmp_path)
    assert len(settings.jobs) == text.count("jobs]]\n")


@pytest.mark.parametrize(("file", "text"), rendered().items(), ids=[file.name for file in rendered()])
def test_what_is_made_from_the_program_is_up_to_date(file: Path, text: str) -> None:
    assert file.read_text() == text, "run `make docs`"

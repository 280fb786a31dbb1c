"""The pages of the documentation, and what stands in them."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("*/README.md")])


class Block(NamedTuple):
    """A block of code; one without a language is what the block before it prints."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return a page's blocks of code, in their order."""
    found = re.findall(r"^( *)```(\w*)\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(language, dedent(text)) for _, language, text in found]


def snippets(page: str, language: str) -> list[str]:
    """Return the blocks of a page in `docs/` that are in a language."""
    return [block.text for block in blocks(DOCS / page) if block.language == language]


def commands(text: str) -> list[str]:
    """Return the lines of a shell block, those that a backslash continues as one."""
    lines = text.replace("\\\n", "").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith((" ", "#"))]

"""Snippets of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def snippets(page: str, language: str) -> list[str]:
    """Return the code blocks of a page that are in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)

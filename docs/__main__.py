"""Write the pages that are made from the program."""

from __future__ import annotations

from pathlib import Path

from docs import document, options

HERE = Path(__file__).parent


def rendered() -> dict[Path, str]:
    """Return the text of each page."""
    return {HERE / "options.md": options.page(), HERE / "json.md": document.page()}


if __name__ == "__main__":
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")

"""The statements, each in a file of its own with the reason for its shape."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import LiteralString


@cache
def query(name: str) -> LiteralString:
    """Return the text of ``NAME.sql``."""
    return files(__package__).joinpath(f"{name}.sql").read_text("utf-8")

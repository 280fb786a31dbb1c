"""What the keys of a server are called: configured jobs, then learned names, then known software."""

from __future__ import annotations

from pglock_inspect.names.book import NameBook
from pglock_inspect.names.configured import ConfiguredNames

__all__ = ["ConfiguredNames", "NameBook"]

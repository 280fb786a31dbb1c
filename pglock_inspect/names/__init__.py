"""What the keys of a server are called: configured jobs, then learned names, then known software."""

from __future__ import annotations

from pglock_inspect.names.book import NameBook
from pglock_inspect.names.configured import ConfiguredNames
from pglock_inspect.names.known import KnownNames
from pglock_inspect.names.learner import Learner

__all__ = ["ConfiguredNames", "KnownNames", "Learner", "NameBook"]

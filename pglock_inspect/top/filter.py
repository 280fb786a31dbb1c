"""What a person types to see some rows only: ``digest user:app database:^shop``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_SHORT = {"app": "application", "db": "database"}


class Facts(NamedTuple):
    """What rows are filtered by; ``more`` is found by words without a prefix alone."""

    job: str | None = None
    user: str | None = None
    application: str | None = None
    database: str | None = None
    target: str | None = None
    more: str | None = None


class Term(NamedTuple):
    """A word to be found in one fact, or in any. It is a regular expression where it can be one."""

    field: str | None
    text: str
    pattern: re.Pattern[str] | None

    def fits(self, facts: Facts) -> bool:
        """Return whether the word is there as it stands, or fits as a regular expression."""
        text = (getattr(facts, self.field) if self.field else "\n".join(filter(None, facts))) or ""
        return self.text in text.casefold() or bool(self.pattern and self.pattern.search(text))


@lru_cache(maxsize=1)
def terms_of(typed: str) -> tuple[Term, ...]:
    """Return the words of a filter; a row has to fit all of them."""
    return tuple(map(_term, typed.split()))


def _term(word: str) -> Term:
    prefix, colon, rest = word.partition(":")
    name = _SHORT.get(prefix.lower(), prefix.lower())
    field, text = (name, rest) if colon and name in Facts._fields and name != "more" else (None, word)
    try:
        pattern = re.compile(text, re.IGNORECASE | re.MULTILINE)
    except re.error:
        pattern = None
    return Term(field, text.casefold(), pattern)

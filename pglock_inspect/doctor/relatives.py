"""What answers like PostgreSQL and is another product: known by what ``version()`` says."""

from __future__ import annotations

import re
from typing import NamedTuple


class Relative(NamedTuple):
    """A product. ``locks`` is what its advisory locks are, ``fix`` what to do about it."""

    name: str
    pattern: re.Pattern[str]
    locks: str
    fix: str


_RELY_ON_NONE = "let no job here rely on advisory locks"
_TRY = "trust its advisory locks only as far as the self-test here does"


def _known(name: str, pattern: str, locks: str, fix: str) -> Relative:
    return Relative(name, re.compile(pattern, re.IGNORECASE), locks, fix)


RELATIVES = (
    _known(  # https://github.com/cockroachdb/cockroach/issues/13546 and pull 168353
        "CockroachDB",
        "cockroach",
        "pg_advisory_lock() there does nothing and lets everybody in; pg_advisory_xact_lock() came in 2026, "
        "and fails before",
        _RELY_ON_NONE,
    ),
    _known(  # https://github.com/yugabyte/yugabyte-db/issues/3642 and pull 27744
        "YugabyteDB",
        "yugabyte|-YB-",
        "it has advisory locks since 2025.1, for the whole cluster; before, they fail, or do nothing where "
        "yb_silence_advisory_locks_not_supported_error is on",
        _TRY,
    ),
    _known(  # https://docs.aws.amazon.com/redshift/latest/dg/c_unsupported-postgresql-functions.html
        "Amazon Redshift", "redshift", "it has no advisory locks", _RELY_ON_NONE
    ),
    _known(  # https://github.com/risingwavelabs/risingwave/issues/15369
        "RisingWave", "risingwave", "it has had no advisory locks", _TRY
    ),
    *(
        _known(name, pattern, "what its advisory locks are worth is not known here", _TRY)
        for name, pattern in (
            ("Greenplum", "greenplum"),
            ("Materialize", "materialize"),
            ("QuestDB", "questdb"),
            ("CrateDB", "crate"),
        )
    ),
)
"""Amazon Aurora DSQL and Spanner are not among them: what they call themselves is a plain PostgreSQL."""


def relative_of(product: str) -> Relative | None:
    """Return the product that a text of ``version()`` is of; None for PostgreSQL and what is not known."""
    return next((relative for relative in RELATIVES if relative.pattern.search(product)), None)

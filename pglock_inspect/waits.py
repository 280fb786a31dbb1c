"""Since when processes wait for locks that are not advisory ones, as far as polls tell.

The server tells it itself from PostgreSQL 14 on. A statement may have run for long before it came to wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pglock_inspect.model import Instant, OtherWait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pglock_inspect.model import Snapshot


class SeenWait(Struct, frozen=True):
    """A wait within the statement begun at ``query_start``, in every poll from ``first_seen`` on."""

    wait: OtherWait
    query_start: Instant | None
    first_seen: Instant


def note_waits(before: Mapping[int, SeenWait], snapshot: Snapshot) -> Mapping[int, SeenWait]:
    """Return the waits by pid, after one more poll."""
    noted = {}
    for wait in snapshot.other_waits:
        session = snapshot.sessions.get(wait.pid)
        query_start = session.query_start if session else None
        known = before.get(wait.pid)
        if known and (known.wait, known.query_start) == (wait, query_start):
            noted[wait.pid] = known
        else:
            noted[wait.pid] = SeenWait(wait, query_start, snapshot.taken_at)
    return noted

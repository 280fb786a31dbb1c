"""The list of checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.doctor import lifetimes, path, role, server

if TYPE_CHECKING:
    from collections.abc import Callable

    from pglock_inspect.doctor.check import Case, Check

# In the order in which they are shown. None says that it could not be measured, which `reading` explains.
CHECKS: tuple[Callable[[Case], Check | None], ...] = (
    server.version,
    server.reading,
    path.exclusion,
    path.pooler,
    server.standby,
    role.visibility,
    role.signals,
    server.activity,
    lifetimes.dead_client,
    lifetimes.busy_client,
    lifetimes.idle_timeouts,
    lifetimes.statement_timeouts,
    server.lock_table,
    server.connections,
    role.collisions,
    path.clock,
)


def examine(case: Case) -> tuple[Check, ...]:
    """Return what all checks say of a case."""
    return tuple(said for check in CHECKS if (said := check(case)))

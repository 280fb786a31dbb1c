"""pglock-inspect: which job holds which PostgreSQL advisory lock, since when, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.errors import (
    AlreadyHeld,
    InTransaction,
    LockError,
    LockLost,
    LockTimeout,
    NotAPsycopgConnection,
    PglockInspectError,
    PoolerDetected,
    UncommittedWork,
    UnhashableName,
    UnknownScheme,
    UsedAfterFork,
)

if TYPE_CHECKING:
    from pglock_inspect.lock import (
        AsyncLock,
        Lock,
        arun_with_lock,
        arun_with_xact_lock,
        atry_lock,
        run_with_lock,
        run_with_xact_lock,
        try_lock,
    )
else:

    def __getattr__(name: str) -> object:
        """Import the lock helper, and psycopg with it, for those who use it."""
        if name in __all__:
            from pglock_inspect import lock  # noqa: PLC0415

            return getattr(lock, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"

__all__ = [
    "AlreadyHeld",
    "AsyncLock",
    "InTransaction",
    "Lock",
    "LockError",
    "LockLost",
    "LockTimeout",
    "NotAPsycopgConnection",
    "PglockInspectError",
    "PoolerDetected",
    "UncommittedWork",
    "UnhashableName",
    "UnknownScheme",
    "UsedAfterFork",
    "arun_with_lock",
    "arun_with_xact_lock",
    "atry_lock",
    "run_with_lock",
    "run_with_xact_lock",
    "try_lock",
]

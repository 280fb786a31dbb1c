"""The lock helper: run a job under an advisory lock, and never believe in one that is gone.

`wire` asks the server, `level` has the two kinds of lock, `base` is the life of one: all apart from waiting,
which `sync` and `aio` add.
"""

from __future__ import annotations

from pglock_inspect.lock.aio import AsyncLock, arun_with_lock, arun_with_xact_lock, atry_lock
from pglock_inspect.lock.base import Options
from pglock_inspect.lock.sync import Lock, run_with_lock, run_with_xact_lock, try_lock

__all__ = [
    "AsyncLock",
    "Lock",
    "Options",
    "arun_with_lock",
    "arun_with_xact_lock",
    "atry_lock",
    "run_with_lock",
    "run_with_xact_lock",
    "try_lock",
]

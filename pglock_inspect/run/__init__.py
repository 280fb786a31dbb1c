"""Runs a program under a lock.

`run_program` takes the lock and stays with it, `program` is the program as this process sees it, and
`guardian` is the process in between, which ends the program where this one cannot.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Unpack

from pglock_inspect.errors import LockLost
from pglock_inspect.lock import base
from pglock_inspect.run.program import Interrupted, Program, WatchedLock, interrupt_by_signals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.keys import AdvisoryKey

__all__ = ["Interrupted", "Run", "run_program"]

SLACK = 5.0  # seconds beyond a beat and its deadline, until silence is taken for a loss

# The server may take a connection for dead after five sixths of the lease, by its keepalives.
_LEASE_PER_LIFE = 1.2


class Run(NamedTuple):
    """How a run went: the program's return code, as `subprocess` has it, or what stood against starting it.

    `lost` is set where the lock was not held to the end, and `guarded` is false where the program's guardian
    was killed, and the program with it. `seconds` is for how long it ran.
    """

    returncode: int | None
    seconds: float
    guarded: bool = True
    lost: LockLost | None = None
    failure: OSError | None = None


def run_program(
    conninfo: str,
    name: str,
    command: Sequence[str],
    *,
    kill_after: float,
    transaction: bool = False,
    key: AdvisoryKey | None = None,
    **options: Unpack[base.Options],
) -> Run | None:
    """Run a program while the lock is held, or return None where another session holds that.

    The lock's arguments are those of `try_lock`; `key` is for a lock that is not made from its name, and
    `kill_after` is seconds. The process belongs to the run from now on: signals go to the program, and one
    that comes before it raises `Interrupted`.

    Raises the lock's errors and psycopg's where the program was not started.
    """
    patience = base.BEAT + base.DEADLINE + SLACK
    interrupt_by_signals()
    program = Program(command, patience=patience, kill_after=kill_after)
    options["on_lost"] = lambda _: program.end()
    lock = WatchedLock(
        conninfo,
        name,
        transaction=transaction,
        lease=max(base.LEASE, _LEASE_PER_LIFE * (patience + kill_after)),
        key=key,
        **options,
    )
    returncode = failure = lost = None
    started = time.monotonic()
    try:
        with lock:
            if not lock:
                return None
            lock.check()  # the wait may have been long, and the lease counts from the last answer
            started = time.monotonic()
            try:
                returncode = program.run(lock)
            except OSError as error:
                failure = error
            seconds = time.monotonic() - started
    except LockLost as error:
        if not program.started:
            raise
        lost = error
    return Run(returncode, seconds, program.guarded, lost, failure)

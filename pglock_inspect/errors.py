"""Every error that this package raises on purpose.

Each message is one sentence for the person who reads it at night: what happened, to what, what to do.

    PglockInspectError
    ├── InvalidKey            text that names no advisory-lock key
    ├── InvalidDuration       text that is no duration
    ├── UnknownScheme         a scheme that is not in the list
    ├── UnhashableName        a name that the chosen scheme has no key for
    ├── ConfigError           a configuration file, variable or flag that cannot be used
    ├── BadStateFile          a file that cannot carry what was observed to the next process
    ├── BadRecording          a recording that cannot be written, read, or asked for a time
    ├── BadConnectionString   a connection string that libpq cannot read
    ├── ServerFailure         a server that cannot be reached or read, with the reason in a word
    ├── Refused               an act on a session that was not done, since it would not be what was meant
    ├── LockError             the lock helper's:
    │   ├── NotAPsycopgConnection   an object that it cannot lock on
    │   ├── InTransaction           a connection that is in a transaction, or busy
    │   ├── UsedAfterFork           a connection that belongs to the parent process
    │   ├── AlreadyHeld             a lock that this very session holds already
    │   ├── PoolerDetected          no way to hold a session-level lock through what stands in between
    │   ├── LockTimeout             a wait that ended without the lock
    │   ├── LockLost                a lock that was gone while the job ran
    │   └── UncommittedWork         a transaction that the job left open, rolled back
    ├── CannotListen          an address that the exporter cannot listen on
    └── ServerUnavailable     the PostgreSQL of the demo cannot be started or stopped
"""

from __future__ import annotations

from typing import Literal

FailureReason = Literal[
    "connect", "auth", "timeout", "login_hangs", "lock_table_full", "too_many_connections", "other"
]


class PglockInspectError(Exception):
    """The base of all errors of this package; its text is one sentence that is safe to print."""


class InvalidKey(PglockInspectError, ValueError):
    """A text or number that is no advisory-lock key."""


class InvalidDuration(PglockInspectError, ValueError):
    """A text that is no duration."""


class UnknownScheme(PglockInspectError, ValueError):
    """A scheme that is not in the list."""


class UnhashableName(PglockInspectError, ValueError):
    """A name that the chosen scheme has no key for."""


class ConfigError(PglockInspectError):
    """A configuration that cannot be used; names the file, the key and the fix."""


class ServerUnavailable(PglockInspectError):
    """A PostgreSQL of our own that cannot be started or stopped."""


class CannotListen(PglockInspectError):
    """An address that the exporter cannot listen on."""


class BadStateFile(PglockInspectError):
    """A file that cannot carry what was observed from one process to the next."""


class BadRecording(PglockInspectError):
    """A recording that cannot be written or read, or that does not reach the time it is asked for."""


class BadConnectionString(PglockInspectError, ValueError):
    """A connection string that libpq cannot read."""


class ServerFailure(PglockInspectError):
    """A server that cannot be reached or read; ``reason`` is what metrics count it as."""

    def __init__(self, message: str, reason: FailureReason) -> None:
        super().__init__(message)
        self.reason: FailureReason = reason


class Refused(PglockInspectError):
    """An act that was not done; ``instead`` is SQL that a person may run in its place."""

    def __init__(self, message: str, instead: str | None = None) -> None:
        super().__init__(message)
        self.instead = instead


class LockError(PglockInspectError):
    """What the lock helper refuses, or has to tell."""


class NotAPsycopgConnection(LockError, TypeError):
    """An object that the lock helper cannot lock on."""


class InTransaction(LockError):
    """A connection that is in a transaction or busy, where a lock needs one that is not; nothing was sent."""


class UsedAfterFork(LockError):
    """A connection that the parent process opened; nothing was sent."""


class AlreadyHeld(LockError):
    """A lock that this very session holds, where PostgreSQL would grant it once more; nothing was sent."""


class PoolerDetected(LockError):
    """Something answers the start-up message in the server's place; no lock was taken."""


class LockTimeout(LockError):
    """A lock that was not to be had in time; nothing is held."""


class LockLost(LockError):
    """A lock that was gone while the job ran, so that another may have run beside it."""


class UncommittedWork(LockError):
    """A transaction that the job left open under a session-level lock; it was rolled back."""

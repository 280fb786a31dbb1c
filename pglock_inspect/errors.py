"""Every error that this package raises on purpose.

Each message is one sentence for the person who reads it at night: what happened, to what, what to do.

    PglockInspectError
    ├── InvalidKey            text that names no advisory-lock key
    ├── InvalidDuration       text that is no duration
    ├── UnknownScheme         a scheme that is not in the list
    ├── UnhashableName        a name that the chosen scheme has no key for
    ├── ConfigError           a configuration file, variable or flag that cannot be used
    ├── ConnectFailed         no session with the server
    ├── PollFailed            a session, but no answer
    └── ServerUnavailable     the PostgreSQL of the demo cannot be started or stopped
"""

from __future__ import annotations


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

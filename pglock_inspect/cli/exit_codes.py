"""What the exit code says; the same for every command but ``run``."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Names are those of a Nagios plug-in, which ``check`` is."""

    OK = 0
    WARNING = 1
    CRITICAL = 2
    UNKNOWN = 3  # could not look, or wrong usage
    INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
    BROKEN_PIPE = 141  # 128 + SIGPIPE

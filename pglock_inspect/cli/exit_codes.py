"""What the exit code says: the same for every command but ``run``, whose code is its program's."""

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


class RunCode(IntEnum):
    """What ``run`` ends with instead of the program's own code; names and numbers are those of sysexits.h."""

    USAGE = 64
    UNAVAILABLE = 69  # no lock is to be had from this server
    SOFTWARE = 70  # something unforeseen
    BUSY = 75  # unless told otherwise
    LOST = 76  # another may have run at the same time
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    SIGNALED = 128  # and the signal's number on top, as shells have it

"""What was measured. What could not be is None, or missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Level = Literal["session", "transaction"]


class Setting(Struct, frozen=True):
    """A setting as this session has it, and as sessions of this role begin; durations are seconds.

    The two differ for keepalives over TCP, which are asked of the kernel.
    """

    value: float
    default: float


class Override(Struct, frozen=True):
    """A setting that one role or one database has for itself; ``text`` is ``name=value``."""

    role: str | None
    database: str | None
    text: str


class Trial(Struct, frozen=True):
    """Two sessions after one lock: what each step returned.

    The first takes it, it shows in ``pg_locks``, the second tries, the first releases it, the second tries
    again.
    """

    level: Level
    first: bool
    shown: bool
    second: bool
    released: bool
    after: bool


class Exclusion(Struct, frozen=True):
    """The trials, or what kept them from being made; ``missing``: the server has no such functions."""

    trials: tuple[Trial, ...] = ()
    problem: str | None = None
    missing: bool = False


class Measured(Struct, frozen=True):
    """A server, the way to it, and this role on it.

    ``product`` is what ``version()`` says, ``role`` is quoted as SQL needs it. ``login_pid`` is what the
    login said and ``pid`` what the session says; ``shared`` tells whether statements of one client were seen
    to run in several sessions, or those of two in one. ``network``: the server sees a client that came over
    TCP. ``ahead`` is the server's clock minus ours in seconds, which is right to ``ahead_error``.
    """

    product: str
    role: str
    login_pid: int
    pid: int
    shared: bool | None = None
    network: bool = False
    in_recovery: bool | None = None
    may_signal: bool | None = None
    connections: int | None = None
    ahead: float | None = None
    ahead_error: float = 0.0
    settings: Mapping[str, Setting] = {}
    overrides: tuple[Override, ...] = ()
    exclusion: Exclusion = Exclusion()

"""How long a lock outlives its client, and what ends one before its job does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.doctor.check import Case, Check
from pglock_inspect.durations import format_duration

if TYPE_CHECKING:
    from pglock_inspect.doctor.measured import Override

# Of Linux: tcp_keepalive_time, _intvl and _probes, and what tcp_retries2 comes to, in ip-sysctl.rst.
_LINUX = {"tcp_keepalives_idle": 7200.0, "tcp_keepalives_interval": 75.0, "tcp_keepalives_count": 9.0}
_RESENDING = 924.6
_TOO_LONG = 300.0
_IDLE = ("idle_session_timeout", "idle_in_transaction_session_timeout", "transaction_timeout")
_SHORTER = (
    "ALTER SYSTEM SET tcp_keepalives_idle = 30; ALTER SYSTEM SET tcp_keepalives_interval = 10; "
    "ALTER SYSTEM SET tcp_keepalives_count = 3; ALTER SYSTEM SET tcp_user_timeout = '60s'; "
    "SELECT pg_reload_conf()"
)


class Silence(NamedTuple):
    """How long the server's kernel takes a peer for alive that does not answer, in seconds at most."""

    seconds: float
    text: str


def silence(case: Case) -> Silence:
    """Return what the settings lead to, with Linux's defaults where only the kernel knows.

    An idle connection ends when ``count`` probes went unanswered; with a user time-out, at the first probe
    that comes after it. While an answer of the server is on its way, there are no probes: it is sent again
    until the user time-out, or for as long as the kernel likes.
    """
    idle, interval, count = (_effective(case, name) or default for name, default in _LINUX.items())
    user_timeout = _effective(case, "tcp_user_timeout")
    probes = max(1, math.ceil((user_timeout - idle) / interval)) if user_timeout else count
    probing, resending = idle + interval * probes, user_timeout or _RESENDING
    text = f"keepalives after {idle:g} s, then {probes:g} times every {interval:g} s"
    if resending > probing:
        text += f"; an answer that is on its way is sent again for {format_duration(resending)}"
    if not all(_effective(case, name) for name in _LINUX) or (resending > probing and not user_timeout):
        text += ", as Linux does unless told otherwise"
    return Silence(max(probing, resending), text)


def _effective(case: Case, name: str) -> float:
    """Return the value in a session over TCP, 0 where it is the kernel's and not known."""
    setting = case.measured.settings.get(name)
    if setting is None:
        return 0.0
    return setting.value if case.measured.network else setting.default


def dead_client(case: Case) -> Check:
    """How long a lock lives whose client is gone without a word, while its session is idle."""
    gone = silence(case)
    bounds = {name: case.seconds(name) for name in _IDLE[:2] if case.seconds(name)}
    longest = max(min(gone.seconds, bounds.get(name, math.inf)) for name in _IDLE[:2])
    how = "; ".join([gone.text, *(f"{name} = {format_duration(bound)}" for name, bound in bounds.items())])
    value = f"a lock whose client vanished lives up to {format_duration(longest)} ({how})"
    if _pooled(case):
        value += "; that a pooler's client vanished, the pooler has to notice"
    if longest <= _TOO_LONG:
        return Check("dead-client", "ok", value)
    return Check("dead-client", "warning", value, _SHORTER)


def _pooled(case: Case) -> bool:
    return bool(case.measured.shared) or case.measured.pid != case.measured.login_pid


def busy_client(case: Case) -> Check | None:
    """Whether the server notices in the midst of a statement that its client is gone."""
    if not case.measured.settings:
        return None
    if "client_connection_check_interval" not in case.measured.settings:
        return Check(
            "busy-client",
            "warning",
            "a client that dies while its statement runs is noticed when that ends, before PostgreSQL 14",
            "set a statement_timeout for the roles of jobs",
        )
    interval = case.seconds("client_connection_check_interval")
    if interval:
        return Check(
            "busy-client",
            "ok",
            f"a client whose connection closes while its statement runs is noticed within "
            f"{format_duration(interval)}",
        )
    return Check(
        "busy-client",
        "warning",
        "a client that dies while its statement runs is noticed when that ends: "
        "client_connection_check_interval is off",
        "ALTER SYSTEM SET client_connection_check_interval = '10s'; SELECT pg_reload_conf()",
    )


def idle_timeouts(case: Case) -> Check | None:
    """Whether a time-out ends sessions, and with them locks, while their jobs work elsewhere."""
    if not case.measured.settings:
        return None
    value = _listed(case, _IDLE)
    if not value:
        return Check(
            "idle-time-outs", "ok", "none ends a session that is idle, or a transaction that is long"
        )
    idle = {"idle": case.seconds(_IDLE[0]), "idle in transaction": case.seconds(_IDLE[1])}
    at_risk = {
        lock.pid
        for lock in case.report.locks
        if lock.granted and lock.session and lock.session.state and idle.get(lock.session.state)
    }
    if not at_risk:
        return Check("idle-time-outs", "ok", f"{value}; no holder of a lock is idle now")
    holders = "1 holder of locks is" if len(at_risk) == 1 else f"{len(at_risk)} holders of locks are"
    return Check(
        "idle-time-outs",
        "warning",
        f"{value}; {holders} idle now, and will lose them by it where it is set for their sessions",
        "let jobs query now and then on the connection of their lock, or ALTER ROLE … SET the time-out to 0",
    )


def statement_timeouts(case: Case) -> Check | None:
    """Whether a wait for a lock ends by a time-out, after which nobody knows whether it was granted."""
    if not case.measured.settings:
        return None
    value = _listed(case, ("statement_timeout", "lock_timeout"))
    if not value:
        return Check("wait-time-outs", "ok", "none: pg_advisory_lock() waits for as long as it takes")
    return Check(
        "wait-time-outs",
        "ok",
        f"{value}: a pg_advisory_lock() that fails by it may own the lock after all; "
        "pg_try_advisory_lock() never waits",
    )


def _listed(case: Case, names: tuple[str, ...]) -> str:
    """Return which of these are on: for this role, and for roles and databases that have their own."""
    own = [f"{name} = {format_duration(case.seconds(name))}" for name in names if case.seconds(name)]
    others = [_own(one) for one in case.measured.overrides if one.text.partition("=")[0] in names]
    return ", ".join([*own, *others])


def _own(override: Override) -> str:
    role = f"role {override.role}" if override.role else "every role"
    database = f" in database {override.database}" if override.database else ""
    return f"{override.text} for {role}{database}"

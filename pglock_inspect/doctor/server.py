"""The server: what it is, and what it has room for."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from pglock_inspect.doctor.check import Case, Check
from pglock_inspect.doctor.relatives import relative_of
from pglock_inspect.model import to_datetime

# https://www.postgresql.org/support/versioning/
_LAST_FIXES = {
    12: date(2024, 11, 21),
    13: date(2025, 11, 13),
    14: date(2026, 11, 12),
    15: date(2027, 11, 11),
    16: date(2028, 11, 9),
    17: date(2029, 11, 8),
    18: date(2030, 11, 14),
}
_OLDEST = min(_LAST_FIXES)
_SHOWS_WAITSTART = 14
_NOBODY_ELSE = re.compile(r"PostgreSQL (\d+)[\w.]*(?: \([^()]*\))? on [^;]*", re.ASCII)
_FULL = 0.8


def version(case: Case) -> Check:
    """Whether it is PostgreSQL itself, in a version that is supported."""
    product = case.measured.product
    if relative := relative_of(product):
        return Check(
            "version", "warning", f"{relative.name}, not PostgreSQL itself: {relative.locks}", relative.fix
        )
    said = _NOBODY_ELSE.match(product)
    if not said:
        return Check(
            "version",
            "warning",
            f"it calls itself {product!r}, which is not PostgreSQL itself",
            "trust its advisory locks only as far as the self-test here does",
        )
    major = int(said[1])
    name = product.split(" on ")[0]
    if major < _OLDEST:
        return Check("version", "failure", name, f"upgrade: {_OLDEST} is the oldest version that can be read")
    last = _LAST_FIXES.get(major)
    if last is None or _today(case) <= last:
        return Check("version", "ok", name)
    waits = (
        ""
        if major >= _SHOWS_WAITSTART
        else f"; before {_SHOWS_WAITSTART} it does not tell since when a session waits"
    )
    return Check(
        "version", "warning", f"{name}, which has had no fixes since {last}{waits}", "upgrade PostgreSQL"
    )


def _today(case: Case) -> date:
    return (to_datetime(case.report.taken_at) if case.server else datetime.now(UTC)).date()


def reading(case: Case) -> Check:
    """Whether locks and sessions can be read at all."""
    if case.report.error is not None:
        return Check("reading", "failure", case.report.error)
    waiting = sum(total.waiting for total in case.report.totals.values())
    held = sum(total.held for total in case.report.totals.values())
    return Check("reading", "ok", f"advisory locks: {held} held, {waiting} waiting")


def standby(case: Case) -> Check | None:
    """Whether these are the locks that jobs take."""
    if case.measured.in_recovery is None:
        return None
    if not case.measured.in_recovery:
        return Check("standby", "ok", "no: it takes writes")
    return Check(
        "standby",
        "warning",
        "it is a standby: locks here are its own, not those of the primary",
        "to see the primary's, add target_session_attrs=read-write to a connection string with all hosts",
    )


def activity(case: Case) -> Check | None:
    """Whether sessions tell what they do."""
    setting = case.measured.settings.get("track_activities")
    if setting is None:
        return None
    if setting.default:
        return Check("activity", "ok", "track_activities is on")
    return Check(
        "activity",
        "warning",
        "track_activities is off: no session tells what it does and since when, so most ages stay unknown",
        "ALTER SYSTEM SET track_activities = on; SELECT pg_reload_conf()",
    )


def lock_table(case: Case) -> Check | None:
    """How much of the lock table is taken; a full one bars every login."""
    if case.server is None or not case.server.lock_slots_guaranteed:
        return None
    rows, guaranteed = case.report.lock_table_rows, case.server.lock_slots_guaranteed
    value = f"{rows:,} of {guaranteed:,} guaranteed slots taken"
    if rows < _FULL * guaranteed:
        return Check("lock-table", "ok", value)
    return Check(
        "lock-table",
        "failure" if rows >= guaranteed else "warning",
        value,
        "raise max_locks_per_transaction and restart, or take fewer locks at once",
    )


def connections(case: Case) -> Check | None:
    """How many connections are left to roles that are not superusers."""
    settings, taken = case.measured.settings, case.measured.connections
    if taken is None or "max_connections" not in settings:
        return None
    reserved = sum(
        settings[name].value
        for name in ("superuser_reserved_connections", "reserved_connections")
        if name in settings
    )
    limit = int(settings["max_connections"].value - reserved)
    value = f"{taken} of {limit} taken"
    if taken < _FULL * limit:
        return Check("connections", "ok", value)
    return Check(
        "connections",
        "failure" if taken >= limit else "warning",
        value,
        "close connections, pool those that hold no session-level lock, or raise max_connections and restart",
    )

"""The way to the server, and whether locks that are taken on it exclude."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.doctor.check import Case, Check
from pglock_inspect.durations import format_duration

if TYPE_CHECKING:
    from pglock_inspect.doctor.measured import Trial

_CLOCKS_AGREE = 1.0  # seconds
_DIRECTLY = (
    "let jobs connect to the server itself, or take pg_advisory_xact_lock and work in that transaction"
)


def pooler(case: Case) -> Check:
    """Whether something between hands the server's sessions from client to client."""
    measured = case.measured
    if measured.shared:
        return Check(
            "pooler",
            "failure",
            "one pools by transaction: statements of one client ran in several sessions, or those of two in "
            "one; session-level locks guard nothing through it",
            _DIRECTLY,
        )
    if measured.pid != measured.login_pid:
        return Check(
            "pooler",
            "warning",
            f"there is one: the login said pid {measured.login_pid}, the session says {measured.pid}; "
            "whether it pools by session or by transaction did not show",
            f"make sure that it pools by session; else {_DIRECTLY}",
        )
    return Check(
        "pooler",
        "ok",
        f"none showed: pid {measured.pid} at login and in each statement (which some poolers imitate)",
    )


def exclusion(case: Case) -> Check:
    """Whether a lock that one session holds is refused to another."""
    exclusion = case.measured.exclusion
    if exclusion.problem is not None:
        if exclusion.missing:
            return Check("self-test", "failure", exclusion.problem, "let no job here rely on advisory locks")
        return Check(
            "self-test",
            "warning",
            f"could not be made: {exclusion.problem}",
            "let this role have two sessions at once, and run it again",
        )
    problems = [problem for trial in exclusion.trials if (problem := _problem(trial))]
    if problems:
        return Check("self-test", "failure", "; ".join(problems), "let no job here rely on advisory locks")
    levels = " and ".join(f"{trial.level}-level" for trial in exclusion.trials)
    return Check("self-test", "ok", f"two sessions excluded each other by {levels} locks on a random key")


def _problem(trial: Trial) -> str | None:
    lock = f"{trial.level}-level lock"
    if not trial.first:
        return f"no session got a {lock} on a random key"
    if trial.second:
        return f"two sessions got the same {lock}: it excludes nobody"
    if not trial.shown:
        return f"a {lock} that is held does not show in pg_locks"
    if not (trial.released and trial.after):
        return f"a {lock} that was released could not be taken again"
    return None


def clock(case: Case) -> Check | None:
    """How far the server's clock, by which ages are computed, is from the one here."""
    measured = case.measured
    if measured.ahead is None:
        return None
    off, side = abs(measured.ahead), "ahead of" if measured.ahead > 0 else "behind"
    error = f"(± {format_duration(measured.ahead_error)})"
    if off - measured.ahead_error < _CLOCKS_AGREE:
        return Check(
            "clock", "ok", f"the server's differs from the one here by {format_duration(off)} {error}"
        )
    return Check(
        "clock",
        "warning",
        f"the server's is {format_duration(off)} {side} the one here {error}; ages are by the server's",
        "synchronise both with NTP before comparing times in logs",
    )

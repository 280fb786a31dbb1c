"""What the connected role may see and do, and what is configured."""

from __future__ import annotations

from pglock_inspect.doctor.check import Case, Check


def visibility(case: Case) -> Check | None:
    """Whether the role sees what other users' sessions do."""
    if case.server is None:
        return None
    role = case.measured.role
    if case.server.privileged:
        return Check("visibility", "ok", f"role {role} sees what every session does")
    return Check(
        "visibility",
        "warning",
        f"role {role} does not see what other users' sessions do, so most ages of their locks stay unknown",
        f"GRANT pg_monitor TO {role}",
    )


def signals(case: Case) -> Check | None:
    """Whether the role may end other users' sessions; one that watches has no need to."""
    if case.measured.may_signal is None:
        return None
    role = case.measured.role
    if case.measured.may_signal:
        return Check("signals", "ok", f"role {role} may end sessions of other roles")
    return Check(
        "signals",
        "ok",
        f"role {role} may end its own sessions only; for kill: GRANT pg_signal_backend TO {role}",
    )


def collisions(case: Case) -> Check | None:
    """Whether configured jobs have a key in common."""
    if case.server is None:
        return None
    found = [finding for finding in case.report.findings if finding.rule == "collision"]
    if found:
        return Check("collisions", "warning", "; ".join(one.summary for one in found), found[0].suggestion)
    jobs = len({state.job.name for state in case.report.jobs})
    return Check(
        "collisions",
        "ok",
        f"{jobs} jobs are configured, no two with the same key" if jobs else "no job is configured",
    )

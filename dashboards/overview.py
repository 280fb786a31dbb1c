"""The overview: do the jobs run, which are stale, who waits, what is there to tell, and does anybody look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import common as looks
from grafana_foundation_sdk.models.common import GraphDrawStyle, StackingMode
from grafana_foundation_sdk.models.dashboard import DynamicConfigValue

from dashboards import tables
from dashboards.frame import JOB, OVERVIEW, assembled, link
from dashboards.panels import (
    GREEN,
    ORANGE,
    RED,
    SEVERITIES,
    STATES,
    YELLOW,
    figure,
    graph,
    timeline,
    with_limit,
)
from dashboards.queries import SEVERAL, number_of, over_time, state_over_time

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import stat, statetimeline, timeseries
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

TARGET, DATABASES, JOBS = SEVERAL.target, SEVERAL.databases, SEVERAL.job
EACH_JOB = "{{name}} ({{target}})"
NO_EXPORTER = "Nobody looks"
NO_JOB = "No job is configured"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return assembled(
        "Advisory locks",
        OVERVIEW,
        "PostgreSQL's advisory locks, and the jobs that run under them, as pglock-inspect sees them.",
        {
            "": figures(),
            "Jobs": [tables.jobs(), history(), *jobs_over_time()],
            "Findings": [findings_over_time(), tables.findings()],
            "Locks": locks(),
            "Watching": watching(),
        },
        selection=SEVERAL,
        links=[link("One job", JOB, "A job's runs, its limit and who waits for it")],
    )


def figures() -> list[stat.Panel]:
    """Return what to look at first."""
    return [
        figure(
            "Servers that cannot be read",
            "Targets whose last poll failed. What is known of their locks is absent, not zero.",
            number_of(f"pglock_up{{{TARGET}}} == 0", f"pglock_up{{{TARGET}}}"),
            (1, RED),
            empty=NO_EXPORTER,
        ),
        figure(
            "Stale jobs",
            "Jobs that hold their lock for longer than their max_held.",
            number_of(
                f"max by (target, name) (pglock_job_stale{{{JOBS}}}) > 0", f"pglock_job_stale{{{JOBS}}}"
            ),
            (1, RED),
            empty=NO_JOB,
        ),
        figure(
            "Missed runs",
            "Jobs that have not run for longer than their `every`, or never while they were watched.",
            f'sum(pglock_findings{{rule=~"missed|never-seen", severity!="info", {TARGET}}})',
            (1, RED),
            empty=NO_EXPORTER,
        ),
        figure(
            "Sessions that wait",
            "Sessions that wait for an advisory lock, of a job or not. Each takes a connection.",
            f'sum(pglock_locks{{state="waiting", {DATABASES}}})',
            (1, YELLOW),
            (20, ORANGE),
            empty=NO_EXPORTER,
        ),
        figure(
            "Critical findings",
            "What should wake somebody. The findings below say by which rule.",
            f'sum(pglock_findings{{severity="critical", {TARGET}}})',
            (1, RED),
            empty=NO_EXPORTER,
        ),
        figure(
            "Warnings",
            "What should be looked at during the day.",
            f'sum(pglock_findings{{severity="warning", {TARGET}}})',
            (1, ORANGE),
            empty=NO_EXPORTER,
        ),
    ]


def history() -> statetimeline.Panel:
    """Return when each job ran."""
    return timeline(
        "When each job ran",
        "Held and stale, as polls saw it. Runs shorter than the pause between two scrapes may not show.",
        over_time(state_over_time(SEVERAL, "target, name"), EACH_JOB),
        states=STATES,
        height=9,
        empty=NO_JOB,
    )


def jobs_over_time() -> list[timeseries.Panel]:
    """Return how close to their limits jobs come, and who waits for them."""
    each = "by (target, name)"
    held = f"max {each} (pglock_job_held_seconds{{{JOBS}}})"
    ago = f"time() - max {each} (pglock_job_last_held_timestamp_seconds{{{JOBS}}})"
    return [
        with_limit(
            graph(
                "Held for, of the limit",
                "How long each lock has been held, as a share of the job's max_held: stale from 100 % on.",
                over_time(f"{held} / max {each} (pglock_job_max_held_seconds{{{JOBS}}})", EACH_JOB),
                unit="percentunit",
                empty=NO_JOB,
            ),
            (1, RED),
        ),
        with_limit(
            graph(
                "Since the last run, of the schedule",
                "How long ago each lock was seen held, as a share of the job's `every`, where it has one.",
                over_time(f"({ago}) / max {each} (pglock_job_every_seconds{{{JOBS}}})", EACH_JOB),
                unit="percentunit",
                empty="No job has a schedule (every)",
            ),
            (1, RED),
        ),
        graph(
            "Sessions that wait, by job",
            "How many sessions wait for each job's lock.",
            over_time(f"sum {each} (pglock_job_waiters{{{JOBS}}})", EACH_JOB),
            unit="short",
            empty=NO_JOB,
        ).decimals(0),
        graph(
            "Longest wait, by job",
            "For how long somebody has waited for each job's lock.",
            over_time(f"max {each} (pglock_job_wait_seconds{{{JOBS}}})", EACH_JOB),
            unit="s",
            empty=NO_JOB,
        ),
    ]


def findings_over_time() -> timeseries.Panel:
    """Return how many findings there are, by severity."""
    panel = graph(
        "Findings by severity",
        "What there is to tell: critical should wake somebody, info is for those who ask.",
        over_time(f"sum by (severity) (pglock_findings{{{TARGET}}})", "{{severity}}"),
        unit="short",
        empty=NO_EXPORTER,
    )
    for severity, colour in SEVERITIES.items():
        panel.override_by_name(
            severity, [DynamicConfigValue("color", {"mode": "fixed", "fixedColor": colour})]
        )
    return panel.decimals(0).fill_opacity(40).stacking(looks.StackingConfig().mode(StackingMode.NORMAL))


def locks() -> list[timeseries.Panel]:
    """Return how many locks there are, whoever holds them."""
    used = f"pglock_lock_table_rows{{{TARGET}}} / pglock_lock_slots_guaranteed{{{TARGET}}}"
    return [
        graph(
            "Advisory locks",
            "All advisory locks, held and waited for.",
            over_time(
                f"sum by (target, database, state) (pglock_locks{{{DATABASES}}})",
                "{{state}} in {{database}} ({{target}})",
            ),
            unit="short",
            empty=NO_EXPORTER,
            width=8,
        ).decimals(0),
        graph(
            "Locks without a name",
            "Advisory locks that no job is configured for, nobody named and no known software takes.",
            over_time(
                f"sum by (target, database) (pglock_unnamed_locks{{{DATABASES}}})",
                "{{database}} ({{target}})",
            ),
            unit="short",
            empty=NO_EXPORTER,
            width=8,
        ).decimals(0),
        with_limit(
            graph(
                "Lock table",
                "Locks of all kinds, as a share of what is guaranteed to fit. When it is full, logins fail.",
                over_time(used, "{{target}}"),
                unit="percentunit",
                empty=NO_EXPORTER,
                width=8,
            ),
            (0.8, ORANGE),
            (1, RED),
        ),
    ]


def watching() -> list[Builder[Panel]]:
    """Return whether all of the above can be believed."""
    failures = f"increase(pglock_poll_failures_total{{{TARGET}}}[$__rate_interval])"
    return [
        timeline(
            "Can be read",
            "Whether the last poll of each server worked. A gap: Prometheus could not scrape the exporter.",
            over_time(f"max by (target) (pglock_up{{{TARGET}}})", "{{target}}"),
            states={"0": ("No", RED), "1": ("Yes", GREEN)},
            width=12,
            height=8,
            empty=NO_EXPORTER,
        ),
        graph(
            "Polls that failed",
            "By reason. The exporter's log has a sentence for each.",
            over_time(f"sum by (target, reason) ({failures})", "{{reason}} ({{target}})"),
            unit="short",
            empty=NO_EXPORTER,
        )
        .draw_style(GraphDrawStyle.BARS)
        .fill_opacity(60),
        with_limit(
            graph(
                "Age of what is known",
                "Since the last poll that worked: at most the pause between polls and that between scrapes.",
                over_time(
                    f"time() - max by (target) (pglock_last_poll_timestamp_seconds{{{TARGET}}})", "{{target}}"
                ),
                unit="s",
                empty=NO_EXPORTER,
            ),
            (300, RED),
        ),
        graph(
            "Time that a poll takes",
            "From asking to the answer, network included.",
            over_time(f"max by (target) (pglock_poll_duration_seconds{{{TARGET}}})", "{{target}}"),
            unit="s",
            empty=NO_EXPORTER,
        ),
    ]

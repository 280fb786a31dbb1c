"""One job in detail: how long it holds its lock, when it ran, how long its runs last, and who waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import heatmap
from grafana_foundation_sdk.models.common import GraphDrawStyle
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.frame import JOB, OVERVIEW, assembled, link
from dashboards.panels import ORANGE, RED, STATES, YELLOW, as_limit, figure, framed, graph, mappings, timeline
from dashboards.queries import ONE, over_time, state_now, state_over_time

if TYPE_CHECKING:
    from grafana_foundation_sdk.builders import stat, timeseries
    from grafana_foundation_sdk.models.dashboard import Dashboard

NOT_WATCHED = "Not watched"
NO_RUN = "No run was seen to end"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return assembled(
        "Advisory locks: one job",
        JOB,
        "A job that runs under an advisory lock of PostgreSQL, as pglock-inspect sees it.",
        {
            "": figures(),
            "Now and before": [
                timeline(
                    "Runs",
                    "When the lock was held, and when it was held for longer than the job's max_held.",
                    over_time(state_over_time(ONE, "name"), "{{name}}"),
                    states=STATES,
                    height=5,
                    empty=NOT_WATCHED,
                ),
                held(),
                since_last_run(),
            ],
            "Waiting": waiting(),
            "How long runs last": [durations(), percentiles(), runs()],
        },
        selection=ONE,
        links=[link("All jobs", OVERVIEW, "All jobs, findings and servers")],
    )


def longest(metric: str) -> str:
    """Return a query for the highest value that the job has in any database."""
    return f"max(pglock_job_{metric}{{{ONE.job}}})"


def figures() -> list[stat.Panel]:
    """Return what to look at first."""
    return [
        figure(
            "State",
            "Free, held, or held for longer than the job's max_held.",
            state_now(ONE, "name"),
            empty=NOT_WATCHED,
        ).mappings(mappings(STATES)),
        figure(
            "Held for",
            "How long the lock has been held by now; 0 while it is free. No value: nothing tells.",
            longest("held_seconds"),
            empty="Unknown",
            base="text",
        ).unit("s"),
        figure(
            "Of the limit",
            "The same as a share of the job's max_held.",
            f"{longest('held_seconds')} / {longest('max_held_seconds')}",
            (0.8, ORANGE),
            (1, RED),
            empty="No limit",
        ).unit("percentunit"),
        figure(
            "Sessions that wait",
            "How many sessions wait for the lock now.",
            f"sum(pglock_job_waiters{{{ONE.job}}})",
            (1, YELLOW),
            (20, ORANGE),
            empty=NOT_WATCHED,
        ),
        figure(
            "Last seen held",
            "When a poll last saw the lock held.",
            f"{longest('last_held_timestamp_seconds')} * 1000",
            empty="Never",
            base="text",
        ).unit("dateTimeFromNow"),
        figure(
            "Runs in this time",
            "How many holds polls saw begin in the time shown. Those between two polls are missed.",
            f"sum(increase(pglock_job_observed_holds_total{{{ONE.job}}}[$__range]))",
            empty="None seen",
            base="text",
        ).decimals(0),
    ]


def held() -> timeseries.Panel:
    """Return the age of the lock against its limit."""
    return as_limit(
        graph(
            "Held for",
            "How long the lock has been held, against the job's max_held. It grows while a run lasts.",
            over_time(longest("held_seconds"), "held"),
            over_time(longest("max_held_seconds"), "max_held"),
            unit="s",
            empty=NOT_WATCHED,
        ),
        "max_held",
    )


def since_last_run() -> timeseries.Panel:
    """Return how long ago the job ran, against its schedule."""
    return as_limit(
        graph(
            "Since the last run",
            "How long ago the lock was seen held, against the job's `every` where it has one.",
            over_time(f"time() - {longest('last_held_timestamp_seconds')}", "since the last run"),
            over_time(longest("every_seconds"), "every"),
            unit="s",
            empty="Never seen held",
        ),
        "every",
    )


def waiting() -> list[timeseries.Panel]:
    """Return who waits, and for how long."""
    return [
        graph(
            "Sessions that wait",
            "How many sessions wait for the lock. Who asks with pg_try_advisory_lock() never waits.",
            over_time(f"sum by (database) (pglock_job_waiters{{{ONE.job}}})", "waiting {{database}}"),
            unit="short",
            empty=NOT_WATCHED,
        ).decimals(0),
        graph(
            "Longest wait",
            "For how long somebody has waited for the lock.",
            over_time(longest("wait_seconds"), "longest wait"),
            unit="s",
            empty=NOT_WATCHED,
        ),
    ]


def durations() -> heatmap.Panel:
    """Return how the durations of runs are spread, over time."""
    buckets = f"pglock_job_observed_hold_seconds_bucket{{{ONE.job}}}"
    query = over_time(f"sum by (le) (increase({buckets}[$__rate_interval]))", "{{le}}")
    return (
        framed(
            heatmap.Panel(),
            "Durations",
            "How long holds lasted that polls saw to end: the darker, the more of them.",
            query.format(PromQueryFormat.HEATMAP),
            width=12,
            height=8,
            empty=NO_RUN,
        )
        .calculate(False)  # noqa: FBT003
        .y_axis(heatmap.YAxisConfig().unit("s"))
        .cell_gap(1)
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues").steps(64))
    )


def percentiles() -> timeseries.Panel:
    """Return how long runs last as a rule, and at most."""
    bucket = f"pglock_job_observed_hold_seconds_bucket{{{ONE.job}}}"
    total, number = (
        f"sum(increase(pglock_job_observed_hold_seconds_{part}{{{ONE.job}}}[$__rate_interval]))"
        for part in ("sum", "count")
    )

    def quantile(share: float) -> str:
        return f"histogram_quantile({share}, sum by (le) (increase({bucket}[$__rate_interval])))"

    return graph(
        "Usual and longest duration",
        "Of holds that polls saw to end. The median and the 95th percentile are as exact as their buckets.",
        over_time(f"{total} / {number}", "mean"),
        over_time(quantile(0.5), "median"),
        over_time(quantile(0.95), "95th percentile"),
        unit="s",
        empty=NO_RUN,
    )


def runs() -> timeseries.Panel:
    """Return how often the job runs."""
    panel = graph(
        "Runs seen",
        "How many holds polls saw begin.",
        over_time(f"sum(increase(pglock_job_observed_holds_total{{{ONE.job}}}[$__rate_interval]))", "runs"),
        unit="short",
        empty="None seen",
        width=24,
    )
    return panel.draw_style(GraphDrawStyle.BARS).fill_opacity(60)

"""What is around the panels: variables, rows, links, alerts as annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.common import TimeZoneBrowser
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from dashboards.panels import RED
from dashboards.queries import SOURCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models import dashboard as models

    from dashboards.queries import Selection

OVERVIEW, JOB = "pglock-overview", "pglock-job"
"""What the dashboards are called in addresses."""


def choice(name: str, label: str, of: str, description: str, *, several: bool) -> build.QueryVariable:
    """Return a variable with the values of a label; ``several`` may be chosen, all of them at first."""
    variable = (
        build.QueryVariable(name)
        .label(label)
        .description(description)
        .datasource(SOURCE)
        .query({"qryType": 1, "query": of, "refId": "PrometheusVariableQueryEditor-VariableQuery"})
        .definition(of)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_CASE_INSENSITIVE_ASC)
        .multi(several)
        .include_all(several)
    )
    if several:
        variable.all_value(".*").current(VariableOption(text="All", value="$__all"))
    return variable


def variables(selection: Selection) -> list[build.QueryVariable | build.DatasourceVariable]:
    """Return the variables of a dashboard."""
    several = selection.several
    source = build.DatasourceVariable("datasource").label("Data source").type("prometheus")
    return [
        source.description("The Prometheus that scrapes pglock-inspect."),
        choice("target", "Target", "label_values(pglock_up, target)", "A server.", several=several),
        choice(
            "database",
            "Database",
            f"label_values(pglock_locks{{{selection.target}}}, database)",
            "Where locks are held. A job that is free and names no database is always shown.",
            several=True,
        ),
        choice(
            "job",
            "Job",
            f"label_values(pglock_job_held{{{selection.target}}}, name)",
            "A configured job.",
            several=several,
        ),
    ]


def link(title: str, uid: str, tooltip: str) -> build.DashboardLink:
    """Return a link to another dashboard that keeps data source and time."""
    return (
        build.DashboardLink(title)
        .type(DashboardLinkType.LINK)
        .url(f"/d/{uid}?${{datasource:queryparam}}")
        .tooltip(tooltip)
        .icon("dashboard")
        .keep_time(True)  # noqa: FBT003
    )


def assembled(
    title: str,
    uid: str,
    description: str,
    rows: Mapping[str, Sequence[Builder[models.Panel]]],
    *,
    selection: Selection,
    links: Sequence[build.DashboardLink],
) -> models.Dashboard:
    """Return a dashboard of rows of panels, with variables, alerts as annotations, and links."""
    alerts = f'ALERTS{{alertname=~"Pglock.+", alertstate="firing", {selection.target}}}'
    made = (
        build.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags(["pglock-inspect", "postgresql"])
        .time("now-6h", "now")
        .timezone(TimeZoneBrowser)
        .refresh("30s")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .editable()
        .variables([*variables(selection)])
        .links([*links])
        .annotation(
            build.AnnotationQuery()
            .name("Alerts")
            .datasource(SOURCE)
            .enable(True)  # noqa: FBT003
            .icon_color(RED)
            .expr(alerts)
            .step("60s")
            .title_format("{{alertname}}")
            .text_format("{{name}} {{target}}")
        )
    )
    for name, panels in rows.items():
        if name:
            made.with_row(build.Row(name))
        for panel in panels:
            made.with_panel(panel)
    result = made.build()
    for number, placed in enumerate(result.panels or [], start=1):
        placed.id_val = number
    for shown in result.links or []:
        shown.placement = None  # type: ignore[assignment] # the default hides it in a menu
    return result

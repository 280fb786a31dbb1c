"""Panels with their usual looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from grafana_foundation_sdk.builders import (
    common as looks,
    dashboard as build,
    heatmap,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DynamicConfigValue,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMapping,
    ValueMappingResult,
)

from dashboards.queries import SOURCE, now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from grafana_foundation_sdk.builders import prometheus

Panel = TypeVar("Panel", heatmap.Panel, stat.Panel, statetimeline.Panel, table.Panel, timeseries.Panel)

GREEN, YELLOW, ORANGE, RED, BLUE = "green", "yellow", "orange", "red", "blue"
GREY = "rgba(128, 128, 128, 0.25)"

STATES = {"0": ("Free", GREY), "1": ("Held", GREEN), "2": ("Stale", RED)}
SEVERITIES = {"critical": RED, "warning": ORANGE, "info": BLUE}


def framed(
    panel: Panel,
    title: str,
    description: str,
    *queries: prometheus.Dataquery,
    width: int,
    height: int,
    empty: str,
) -> Panel:
    """Return a panel with its texts, its size (of 24 columns) and queries; without data it says ``empty``."""
    panel.datasource(SOURCE).title(title).description(description).span(width).height(height)
    for ref, query in zip("ABCDEFGH", queries, strict=False):
        panel.with_target(query.ref_id(ref))
    return panel.no_value(empty)


def figure(
    title: str, description: str, expr: str, *steps: tuple[float, str], empty: str, base: str = GREEN
) -> stat.Panel:
    """Return one big value; ``steps`` colour it from a value on."""
    panel = framed(stat.Panel(), title, description, now(expr), width=4, height=4, empty=empty)
    return (
        panel.graph_mode(BigValueGraphMode.NONE)
        .color_mode(BigValueColorMode.VALUE)
        .reduce_options(looks.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(thresholds(*steps, base=base))
    )


def graph(
    title: str, description: str, *queries: prometheus.Dataquery, unit: str, empty: str, width: int = 12
) -> timeseries.Panel:
    """Return lines over time, with a legend that tells the last and the highest value."""
    panel = framed(timeseries.Panel(), title, description, *queries, width=width, height=8, empty=empty).unit(
        unit
    )
    return (
        panel.min(0)
        .fill_opacity(10)
        .show_points(VisibilityMode.NEVER)
        .legend(
            looks.VizLegendOptions()
            .display_mode(LegendDisplayMode.TABLE)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)  # noqa: FBT003
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(looks.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    )


def timeline(
    title: str,
    description: str,
    *queries: prometheus.Dataquery,
    states: Mapping[str, tuple[str, str]],
    height: int,
    empty: str,
    width: int = 24,
) -> statetimeline.Panel:
    """Return states over time, one row for each series."""
    panel = framed(
        statetimeline.Panel(), title, description, *queries, width=width, height=height, empty=empty
    )
    return (
        panel.mappings(mappings(states))
        .show_value(VisibilityMode.NEVER)
        .merge_values(True)  # noqa: FBT003
        .fill_opacity(80)
        .legend(
            looks.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)  # noqa: FBT003
        )
    )


def thresholds(*steps: tuple[float, str], base: str = GREEN) -> build.ThresholdsConfig:
    """Return colours from a value on; ``base`` is that of all below."""
    return (
        build.ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps([Threshold(None, base), *(Threshold(value, colour) for value, colour in steps)])
    )


def with_limit(panel: timeseries.Panel, *steps: tuple[float, str]) -> timeseries.Panel:
    """Draw a dashed line across a graph at each step."""
    style = looks.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(thresholds(*steps)).thresholds_style(style)


def as_limit(panel: timeseries.Panel, legend: str) -> timeseries.Panel:
    """Draw one series of a graph as a dashed red line: what the others are measured against."""
    return panel.override_by_name(
        legend,
        [
            DynamicConfigValue("color", {"mode": "fixed", "fixedColor": RED}),
            DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [8, 8]}),
            DynamicConfigValue("custom.fillOpacity", 0),
        ],
    )


def mappings(states: Mapping[str, tuple[str, str]]) -> list[ValueMapping]:
    """Return texts and colours for values."""
    return [
        ValueMap(
            {
                value: ValueMappingResult(text=text, color=colour, index=index)
                for index, (value, (text, colour)) in enumerate(states.items())
            }
        )
    ]

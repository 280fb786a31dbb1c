"""What is asked of Prometheus."""

from __future__ import annotations

from typing import NamedTuple

from grafana_foundation_sdk.builders import prometheus
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")


class Selection(NamedTuple):
    """Selects what the variables say; of several values Grafana makes a regular expression."""

    several: bool

    @property
    def target(self) -> str:
        """Matchers of a target's series."""
        return f'target{self._matches}"$target"'

    @property
    def databases(self) -> str:
        """Matchers of a database's series, and of a job that is free and names none, whose label is empty."""
        return f'{self.target}, database=~"$database|"'

    @property
    def job(self) -> str:
        """Matchers of a job's series."""
        return f'{self.databases}, name{self._matches}"$job"'

    @property
    def _matches(self) -> str:
        return "=~" if self.several else "="


SEVERAL, ONE = Selection(several=True), Selection(several=False)


def state_of(selection: Selection, by: str) -> str:
    """Return a query for 0, 1 or 2: free, held, stale; also of a run between two points of a graph."""

    def most(metric: str) -> str:
        series = f"{metric}{{{selection.job}}}"
        return f"max by ({by}) (max_over_time({series}[$__interval]) or {series})"

    return f"clamp_max({most('pglock_job_held')}, 1) + ({most('pglock_job_stale')} > bool 0)"


def number_of(condition: str, among: str) -> str:
    """Return a query for how many series meet a condition: 0 if none does, nothing if there are none."""
    return f"count({condition}) or 0 * count({among})"


def over_time(expr: str, legend: str = "") -> prometheus.Dataquery:
    """Return a query for a graph."""
    return prometheus.Dataquery().datasource(SOURCE).expr(expr).legend_format(legend).range()


def now(expr: str) -> prometheus.Dataquery:
    """Return a query for one value."""
    return prometheus.Dataquery().datasource(SOURCE).expr(expr).instant()


def column(expr: str) -> prometheus.Dataquery:
    """Return a query for a column of a table."""
    return now(expr).format(PromQueryFormat.TABLE)

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


def state_now(selection: Selection, by: str) -> str:
    """Return a query for 0, 1 or 2: free, held, stale."""
    return _state(by, *(f"{metric}{{{selection.job}}}" for metric in _STATE))


def state_over_time(selection: Selection, by: str) -> str:
    """Return the same for a graph: a run between two of its points shows at the second."""
    series = (f"{metric}{{{selection.job}}}" for metric in _STATE)
    return _state(by, *(f"max_over_time({each}[$__interval]) or {each}" for each in series))


def _state(by: str, held: str, stale: str) -> str:
    return f"clamp_max(max by ({by}) ({held}), 1) + (max by ({by}) ({stale}) > bool 0)"


_STATE = ("pglock_job_held", "pglock_job_stale")


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

"""What a check is given, and what it says."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from pglock_inspect.doctor.measured import Measured
from pglock_inspect.model import Report, Server

Grade = Literal["ok", "warning", "failure"]


class Case(Struct, frozen=True):
    """What was measured, and what one poll says."""

    measured: Measured
    report: Report

    @property
    def server(self) -> Server | None:
        """What the poll knows of the server."""
        return self.report.server

    def seconds(self, setting: str) -> float:
        """Return a time-out of this role's sessions, 0 where it is off or not known to this version."""
        found = self.measured.settings.get(setting)
        return found.default if found else 0.0


class Check(Struct, frozen=True):
    """One line of a check-up: ``value`` is what was measured, in words; ``fix`` is None where all is well."""

    name: str
    grade: Grade
    value: str
    fix: str | None = None

"""The pure half of ``doctor``: from what was measured of a server and the way to it, to checks with a fix."""

from __future__ import annotations

from pglock_inspect.doctor.check import Case, Check, Grade
from pglock_inspect.doctor.checks import examine
from pglock_inspect.doctor.measured import Exclusion, Measured, Override, Setting, Trial
from pglock_inspect.doctor.relatives import relative_of

__all__ = [
    "Case",
    "Check",
    "Exclusion",
    "Grade",
    "Measured",
    "Override",
    "Setting",
    "Trial",
    "examine",
    "relative_of",
]

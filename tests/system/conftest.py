from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command import Pglock

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def pglock(dsn: str, tmp_path: Path) -> Pglock:
    """The command, pointed at the shared server."""
    return Pglock(tmp_path, dsn)


@pytest.fixture
def stray(tmp_path: Path) -> Pglock:
    """The command, pointed nowhere."""
    return Pglock(tmp_path)

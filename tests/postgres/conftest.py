from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pglock_inspect.config import Settings
from pglock_inspect.model import RuleSettings
from pglock_inspect.watch import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.model import Job
    from tests.support.watching import Watch


@pytest.fixture
def watch(dsn: str) -> Iterator[Watch]:
    """Opens watchers of the shared server, or of another."""
    shared = dsn
    with ExitStack() as watchers:

        def open_watcher(
            *jobs: Job,
            dsn: str | None = None,
            thresholds: dict[str, float] | None = None,
            **settings: Any,  # noqa: ANN401
        ) -> Watcher:
            rules = {rule: RuleSettings(threshold=value) for rule, value in (thresholds or {}).items()}
            watcher = Watcher(dsn or shared, Settings(jobs=jobs, rules=rules, **settings))
            return watchers.enter_context(watcher)

        yield open_watcher

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import Connection


@pytest.fixture
def invoices(janitor: Connection) -> Iterator[str]:
    """The name of a table; ask for it before `connect`, whose sessions must be gone when it is dropped."""
    name = "pglock_test_invoices"
    janitor.execute(f"CREATE TABLE {name} AS SELECT id FROM generate_series(1, 10) AS id")
    yield name
    janitor.execute(f"DROP TABLE {name}")

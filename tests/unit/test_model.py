from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.model import Instant, to_datetime, to_instant


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_datetime_comes_back(moment: datetime) -> None:
    assert to_datetime(to_instant(moment)) == moment


@pytest.mark.parametrize(("instant", "year"), [(2**63 - 1, 9999), (10**18, 9999), (-(2**63), 1)])
def test_what_postgresql_has_beyond_is_the_end_of_time(instant: int, year: int) -> None:
    assert to_datetime(Instant(instant)).year == year

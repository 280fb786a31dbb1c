from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from pglock_inspect.keys import AdvisoryKey, Value

if TYPE_CHECKING:
    from tests.support.servers import Connect, Connection

INT4 = st.integers(-(1 << 31), (1 << 31) - 1)
BIGINT = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.fixture
def session(connect: Connect) -> Connection:
    return connect()


def advisory_locks(session: Connection) -> list[tuple[int, int, int]]:
    return session.execute(
        """SELECT classid::bigint, objid::bigint, objsubid FROM pg_locks
           WHERE locktype = 'advisory' AND pid = pg_backend_pid()"""
    ).fetchall()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.one_of(BIGINT, INT4, st.tuples(INT4, INT4)))
@example(value=-1957215242)
@example(value=(1 << 63) - 1)
@example(value=-(1 << 63))
@example(value=(-(1 << 31), (1 << 31) - 1))
def test_a_key_comes_back_from_pg_locks(session: Connection, value: Value) -> None:
    key = AdvisoryKey.from_value(value)
    session.execute(f"SELECT pg_advisory_lock({key.sql_arguments})".encode())
    shown = advisory_locks(session)
    released = session.execute(f"SELECT pg_advisory_unlock({key.sql_arguments})".encode()).fetchone()

    assert [AdvisoryKey.from_pg_locks(*row) for row in shown] == [key]
    assert [AdvisoryKey.from_pg_locks(*row).value for row in shown] == [value]
    assert released == (True,)
    assert advisory_locks(session) == []

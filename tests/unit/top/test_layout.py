from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.top import views
from pglock_inspect.top.layout import lay_out
from pglock_inspect.top.views.locks import PLAN


def titles(cells: int) -> list[str]:
    return [place.column.title for place in lay_out(PLAN, cells)]


@pytest.mark.parametrize("view", views.NAMES)
@given(st.integers(39, 400))
def test_every_cell_is_used_and_more_room_takes_no_column_away(view: str, cells: int) -> None:
    plan = views.load(view).plan
    places, roomier = lay_out(plan, cells), lay_out(plan, cells + 1)
    assert sum(place.blanks + place.width for place in places) <= cells
    assert all(place.width > 0 for place in places)
    assert {place.column for place in places} <= {place.column for place in roomier}


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (39, ["", "JOB", "STATE", "FOR"]),
        (79, ["", "JOB", "STATE", "FOR", "OF MAX", "WAIT", "PID"]),
        (
            159,
            [
                "",
                "JOB",
                "KEY",
                "STATE",
                "FOR",
                "OF MAX",
                "WAIT",
                "PID",
                "USER",
                "APPLICATION",
                "CLIENT",
                "QUERY",
            ],
        ),
    ],
)
def test_the_important_columns_come_first(cells: int, shown: list[str]) -> None:
    assert titles(cells) == shown


def test_the_widest_terminal_gives_what_is_left_to_the_query() -> None:
    *_, query = lay_out(PLAN, 399)
    assert query.column.title == "QUERY"
    assert sum(place.blanks + place.width for place in lay_out(PLAN, 399)) == 399

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.top.layout import lay_out


def titles(cells: int) -> list[str]:
    return [place.column.title for place in lay_out(cells)]


@given(st.integers(39, 400))
def test_every_cell_is_used(cells: int) -> None:
    assert sum(place.blanks + place.width for place in lay_out(cells)) <= cells
    assert all(place.width > 0 for place in lay_out(cells))


@given(st.integers(39, 399))
def test_more_room_never_takes_a_column_away(cells: int) -> None:
    assert set(titles(cells)) <= set(titles(cells + 1))


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
    *_, query = lay_out(399)
    assert query.column.title == "QUERY"
    assert sum(place.blanks + place.width for place in lay_out(399)) == 399

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pglock_inspect.present.cells import width
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.recording import Recorder, Recording
from pglock_inspect.top.feed import Feed
from pglock_inspect.top.player import Player
from pglock_inspect.top.playing import banner, found, timeline, title_line
from pglock_inspect.top.view import Sight
from tests.support.reports import HOLDER, NOW, STALE, UNREACHABLE, ago, make_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pglock_inspect.model import Report
    from pglock_inspect.present.spans import Span

LOOK = Look()
QUIET = make_report(HOLDER)
TROUBLE = make_report(HOLDER, findings=(STALE,))


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Recording]:
    """Eleven polls, two seconds apart; from the fourth on a lock is stale."""
    path = tmp_path / "night.rec"
    with Recorder(path) as recorder:
        for number in range(11):
            recorder.write([replace(TROUBLE if number >= 3 else QUIET, taken_at=ago(-2 * number))])
    with Recording.open(path) as recording:
        yield recording


def fed(*came: Report) -> Feed:
    feed = Feed("localhost:5432", now=0.0)
    for report in came:
        feed.receive(Sight(report), 0.0)
    return feed


def text(line: list[Span]) -> str:
    return "".join(text for text, _ in line)


def test_the_title_tells_the_moment_the_speed_and_the_place(night: Recording) -> None:
    player = Player(night, now=0.0, index=3)
    player.accelerate(2, now=0.0)
    assert text(title_line([fed(QUIET)], night, player, 99, LOOK)) == (
        "night.rec  localhost:5432  PostgreSQL 18.6  primary     playing  4×  2026-11-30  02:00:06 UTC  4/11"  # noqa: RUF001
    )
    player.toggle(now=0.0)
    assert "  stopped  4×  " in text(title_line([fed(QUIET)], night, player, 100, LOOK))  # noqa: RUF001
    player.go(10, now=0.0)
    player.accelerate(-3, now=0.0)
    shown = text(title_line([fed(), fed()], night, player, 80, Look(ASCII, "ascii")))
    assert shown == "night.rec  2 targets                  end  0.5x  2026-11-30  02:00:20 UTC  11/11"


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (60, "localhost:5432  playing  1×  2026-11-30  02:00:00 UTC  1/11"),  # noqa: RUF001
        (45, "localhost:5432     playing  1×  02:00:00 UTC"),  # noqa: RUF001
        (26, "playing  1×  02:00:00 UTC"),  # noqa: RUF001
        (14, "02:00:00 UTC"),
    ],
)
def test_the_title_loses_what_matters_least(night: Recording, cells: int, shown: str) -> None:
    line = text(title_line([fed(QUIET)], night, Player(night, now=0.0), cells, LOOK))
    assert line.split() == shown.split()
    assert width(line) == cells


def test_the_timeline_shows_where_something_was_found_and_where_one_is(night: Recording) -> None:
    assert night.findings() == [(3, "critical")]
    line = timeline(night, night.findings(), 6, 39, LOOK)
    assert text(line) == "02:00:00 ━━━━━━✗━━━━━▶──────── 02:00:20"
    assert ("✗", "critical") in line
    assert text(timeline(night, night.findings(), 0, 39, Look(ASCII, "ascii"))) == (
        "02:00:00 >-----X-------------- 02:00:20"
    )
    assert text(timeline(night, night.findings(), 10, 39, LOOK)).endswith("▶ 02:00:20")
    assert timeline(night, night.findings(), 0, 20, LOOK) == []


def test_of_what_was_found_at_one_place_the_last_is_shown(night: Recording) -> None:
    line = timeline(night, [(4, "warning"), (4, "critical")], 0, 39, LOOK)
    assert [meaning for sign, meaning in line if sign in "✗▲"] == ["critical"]


def test_a_server_that_was_away_is_told() -> None:
    assert banner([fed(QUIET)], NOW, LOOK) == []
    away = replace(UNREACHABLE, error="connection refused.")
    assert text(banner([fed(away)], NOW, LOOK)) == "✗ localhost:5432 could not be read: connection refused."
    assert text(banner([fed(QUIET, away)], ago(-90.5), LOOK)) == (
        "✗ localhost:5432 could not be read: connection refused. What is shown is 1 min 30 s older."
    )


def test_what_was_found_is_told_the_worst_first() -> None:
    waiting = replace(STALE, rule="waiting-long", severity="warning", summary="somebody waits")
    little = replace(STALE, rule="unnamed", severity="info")
    assert found((make_report(findings=(waiting, little)),), (QUIET,), LOOK) == (
        "▲ somebody waits",
        "warning",
    )
    both = found((make_report(findings=(waiting, STALE)),), (QUIET,), LOOK)
    assert both == (f"✗ {STALE.summary}; and 1 more", "critical")
    assert found((make_report(findings=(waiting, STALE)),), (TROUBLE,), LOOK) == (
        "▲ somebody waits",
        "warning",
    )
    assert found((TROUBLE,), (TROUBLE,), LOOK) is None
    assert found((make_report(findings=(little,)),), (), LOOK) is None
    assert found((UNREACHABLE,), (QUIET,), LOOK) == (f"✗ {UNREACHABLE.error}", "critical")
    assert found((UNREACHABLE,), (UNREACHABLE,), LOOK) is None

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.model import Instant
from pglock_inspect.top.player import LONGEST_WAIT, SPEEDS, Player


class Polls(NamedTuple):
    """Polls that were taken at these seconds."""

    seconds: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.seconds)

    def taken_at(self, index: int) -> Instant:
        return Instant(round(self.seconds[index] * 1_000_000))


EVEN = Polls(tuple(map(float, range(0, 20, 2))))


def at(player: Player, now: float) -> int:
    player.advance(now)
    return player.index


def test_polls_are_shown_as_far_apart_as_they_were_taken() -> None:
    player = Player(Polls((0.0, 2.0, 2.5, 6.0)), now=100.0)
    assert player.wait(100.0) == 2.0
    assert [at(player, now) for now in (100.0, 101.9, 102.0, 102.4, 102.5, 105.9, 106.0)] == [
        *(0, 0, 1, 1, 2, 2, 3)
    ]
    assert player.at_end
    assert player.wait(106.0) is None


def test_polls_that_are_due_at_once_are_passed_by() -> None:
    player = Player(EVEN, now=0.0)
    assert at(player, 7.0) == 3
    assert player.wait(7.0) == 1.0


def test_a_night_without_polls_takes_no_night() -> None:
    player = Player(Polls((0.0, 36_000.0, 36_002.0)), now=0.0)
    assert player.wait(0.0) == LONGEST_WAIT
    assert at(player, LONGEST_WAIT) == 1
    assert player.wait(LONGEST_WAIT) == 2.0


def test_a_speed_counts_from_now_on() -> None:
    player = Player(EVEN, now=0.0)
    player.accelerate(1, now=1.0)
    assert (player.speed, player.wait(1.0)) == (2.0, 0.5)
    player.accelerate(-2, now=1.25)
    assert (player.speed, player.wait(1.25)) == (0.5, 1.0)
    player.accelerate(0, now=1.75)
    assert (player.speed, player.wait(1.75)) == (1.0, 0.25)
    for _ in SPEEDS:
        player.accelerate(1, now=1.75)
    assert player.speed == SPEEDS[-1] > 1_000
    for _ in SPEEDS:
        player.accelerate(-1, now=1.75)
    assert player.speed == SPEEDS[0] < 1


def test_what_is_stopped_goes_on_where_it_was() -> None:
    player = Player(EVEN, now=0.0)
    player.toggle(now=1.5)
    assert (player.playing, player.wait(60.0), at(player, 60.0)) == (False, None, 0)
    player.toggle(now=60.0)
    assert (player.playing, player.wait(60.0)) == (True, 0.5)


def test_a_step_stops_it() -> None:
    player = Player(EVEN, now=0.0)
    player.step(3, now=1.0)
    assert (player.index, player.playing) == (3, False)
    player.step(-1, now=1.0)
    assert at(player, 60.0) == 2
    player.toggle(now=60.0)
    assert player.wait(60.0) == 2.0


@pytest.mark.parametrize(("index", "there"), [(-5, 0), (4, 4), (99, 9)])
def test_it_goes_anywhere_within_the_recording(index: int, there: int) -> None:
    player = Player(EVEN, now=0.0, index=1)
    player.go(index, now=1.0)
    assert (player.index, player.playing, player.at_end) == (there, True, there == 9)


def test_all_is_played_again_from_its_end() -> None:
    player = Player(EVEN, now=0.0)
    player.go(9, now=30.0)
    player.toggle(now=31.0)
    assert (player.index, player.playing, player.wait(31.0)) == (0, True, 2.0)
    player.step(9, now=31.0)
    player.toggle(now=32.0)
    assert (player.index, player.playing, player.wait(32.0)) == (0, True, 2.0)


def test_one_poll_is_a_recording_too() -> None:
    player = Player(Polls((5.0,)), now=0.0)
    player.toggle(now=1.0)
    assert (at(player, 9.0), player.wait(9.0), player.at_end) == (0, None, True)


@given(
    st.lists(st.floats(0, 100), min_size=1).map(lambda gaps: Polls(tuple(accumulate(gaps)))),
    st.lists(st.tuples(st.sampled_from(["toggle", "go", "step", "accelerate", "wait"]), st.integers(-3, 3))),
)
def test_whatever_is_done_it_shows_a_poll_and_plays_on_to_the_end(
    polls: Polls, done: list[tuple[str, int]]
) -> None:
    player, now = Player(polls, now=0.0), 0.0
    for what, number in done:
        now += abs(number) / 2
        match what:
            case "toggle":
                player.toggle(now)
            case "go":
                player.go(number, now)
            case "step":
                player.step(number, now)
            case "accelerate":
                player.accelerate(number, now)
            case _:
                player.advance(now)
        assert 0 <= player.index < len(polls)
        wait = player.wait(now)
        assert wait is None or 0 <= wait <= LONGEST_WAIT
    player.go(0, now)
    if not player.playing:
        player.toggle(now)
    assert at(player, now + LONGEST_WAIT * len(polls)) == len(polls) - 1

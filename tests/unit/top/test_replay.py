"""A recording on the screen: every key that plays it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Name
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.recording import Recorder, Recording
from pglock_inspect.recording.member import HEADER_SIZE
from pglock_inspect.top.keys import ACT, LOOK, MOVE, PLAY, RUN, VIEWS, explained
from pglock_inspect.top.ui.replay import ReplayApp
from tests.support.reports import HOLDER, STALE, UNREACHABLE, ago, make_report
from tests.support.screens import Clock, Seen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from textual.pilot import Pilot

    from pglock_inspect.model import Report

LENGTH = 12
STALE_FROM, LOST_AT = 4, 8


def poll(number: int) -> Report:
    """What was so after so many times two seconds: each poll has one lock more, one of them is stale."""
    locks = [
        replace(
            HOLDER, key=AdvisoryKey(0, n, 1), name=Name(f"job-{n:02}", "config"), findings=(), severity=None
        )
        for n in range(number + 1)
    ]
    findings = (STALE,) if number >= STALE_FROM else ()
    return replace(make_report(*locks, findings=findings), taken_at=ago(-2 * number))


def night() -> list[list[Report]]:
    polls = [[poll(number)] for number in range(LENGTH)]
    polls[LOST_AT] = [replace(UNREACHABLE, target=poll(0).target, taken_at=ago(-2 * LOST_AT))]
    return polls


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where `night` is recorded."""
    path = tmp_path / "night.rec"
    record(path, night())
    return path


class Replay(Seen):
    """The program on a recording, and what a person sees of it."""

    app: ReplayApp

    def __init__(self, app: ReplayApp, pilot: Pilot[BaseException], clock: Clock) -> None:
        self.app, self.pilot, self.clock = app, pilot, clock

    async def until(self, met: Callable[[], object]) -> None:
        for _ in range(1_000):
            if met():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(self.text)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def wait(self, seconds: float) -> None:
        """Let time pass on the program's clock."""
        self.clock.now += seconds
        self.app._wake.set()
        await self.pilot.pause()

    async def shows(self, number: int) -> None:
        """Wait until a poll is shown, and nothing else is on its way."""
        place = f" {number + 1}/{len(self.app.recording)}"
        held = f" {number + 1} held"
        await self.until(lambda: place in self.lines[0] and (held in self.lines[1] or number == LOST_AT))
        assert self.app.player.index == number


def record(file: Path, polls: Sequence[Sequence[Report]]) -> None:
    with Recorder(file) as recorder:
        for each in polls:
            recorder.write(each)


@asynccontextmanager
async def opened(
    file: Path,
    *,
    index: int = 0,
    size: tuple[int, int] = (110, 24),
    look: Look | None = None,
    targets: Sequence[str] = ("localhost:5432",),
) -> AsyncIterator[Replay]:
    """Open the program on a recording."""
    clock = Clock()
    with Recording.open(file) as recording:
        app = ReplayApp(recording, targets, look or Look(), index=index, clock=clock)
        async with app.run_test(size=size) as pilot:
            yield Replay(app, pilot, clock)


async def test_it_plays_from_the_start_as_fast_as_it_was(file: Path) -> None:
    async with opened(file) as screen:
        await screen.shows(0)
        assert screen.lines[0] == (
            " night.rec  localhost:5432  PostgreSQL 18.6  primary"
            "              playing  1×  2026-11-30  02:00:00 UTC  1/12"  # noqa: RUF001
        )
        assert screen.lines[2].startswith(" 02:00:00 ▶─────")
        assert screen.lines[2].endswith("────── 02:00:22")
        await screen.wait(1.9)
        await screen.shows(0)
        await screen.wait(0.1)
        await screen.shows(1)
        await screen.wait(4)
        await screen.shows(3)
        await screen.wait(60)
        await screen.shows(11)
        assert "  end  1×  " in screen.lines[0]  # noqa: RUF001


async def test_space_stops_it_and_plays_on_and_from_the_start_where_it_ended(file: Path) -> None:
    async with opened(file, index=9) as screen:
        await screen.shows(9)
        await screen.press("space")
        assert "  stopped  " in screen.lines[0]
        await screen.wait(60)
        await screen.shows(9)
        await screen.press("space")
        assert "  playing  " in screen.lines[0]
        await screen.wait(4)
        await screen.shows(11)
        await screen.press("space")
        await screen.shows(0)
        assert "  playing  " in screen.lines[0]


@pytest.mark.parametrize(("on", "back"), [("full_stop", "comma"), ("right", "left")])
async def test_steps(file: Path, on: str, back: str) -> None:
    async with opened(file) as screen:
        await screen.shows(0)
        await screen.press(on)
        await screen.shows(1)
        assert "  stopped  " in screen.lines[0]
        await screen.press(on, on)
        await screen.shows(3)
        await screen.press(back)
        await screen.shows(2)
        await screen.press(back, back, back, back)
        await screen.shows(0)
        await screen.press("enter")
        assert "Esc back" in screen.text
        await screen.press(on)
        await screen.shows(1)


async def test_columns_are_still_sorted_by_their_keys(file: Path) -> None:
    async with opened(file, index=3) as screen:
        await screen.shows(3)
        await screen.press("greater_than_sign")
        assert "by job" in screen.lines[-1].lower()
        await screen.shows(3)


async def test_speed(file: Path) -> None:
    async with opened(file) as screen:
        await screen.shows(0)
        await screen.press("plus", "equals_sign")
        assert "  4×  " in screen.lines[0]  # noqa: RUF001
        await screen.wait(1)
        await screen.shows(2)
        await screen.press("minus", "minus", "minus")
        assert "  0.5×  " in screen.lines[0]  # noqa: RUF001
        await screen.wait(4)
        await screen.shows(3)
        await screen.press("backspace")
        assert "  1×  " in screen.lines[0]  # noqa: RUF001


async def test_it_stops_where_more_was_found_and_tells_what(file: Path) -> None:
    async with opened(file) as screen:
        await screen.shows(0)
        await screen.press("n")
        await screen.shows(STALE_FROM)
        assert "  stopped  " in screen.lines[0]
        assert f" ✗ {STALE.summary}"[:100] in screen.text
        await screen.press("n")
        await screen.shows(LOST_AT)
        assert "✗ cannot connect to db.example.org:5432: connection refused" in screen.text
        await screen.press("n")
        await screen.until(lambda: "Nothing more was found after this." in screen.text)
        await screen.shows(LOST_AT)
        await screen.press("N")
        await screen.shows(STALE_FROM)
        await screen.press("N")
        await screen.until(lambda: "Nothing more was found before this." in screen.text)
        assert "✗" in screen.lines[2]


async def test_a_server_that_was_away_is_told_with_the_age_of_what_is_shown(file: Path) -> None:
    async with opened(file, index=LOST_AT - 1) as screen:
        await screen.shows(LOST_AT - 1)
        await screen.press("full_stop")
        await screen.until(lambda: "localhost:5432 could not be read: cannot connect" in screen.text)
        assert "What is shown is 2 s older." in screen.text
        assert "job-07" in screen.text
        await screen.press("full_stop")
        await screen.shows(LOST_AT + 1)
        assert "could not be read" not in screen.text


async def test_nothing_is_waited_for_where_no_server_was_read(file: Path) -> None:
    record(file.with_name("away.rec"), [[UNREACHABLE]] * 3)
    async with opened(file.with_name("away.rec"), targets=(UNREACHABLE.target,)) as screen:
        await screen.until(lambda: "No server was read up to here." in screen.text)
        await screen.until(lambda: f"{UNREACHABLE.target} could not be read: cannot connect" in screen.text)
        assert "Waiting" not in screen.text


@pytest.mark.parametrize(
    ("typed", "number"), [("02:00:10", 5), ("+6.5s", 3), ("-2s", 10), ("2026-11-30T02:00:07Z", 3)]
)
async def test_it_goes_to_a_time(file: Path, typed: str, number: int) -> None:
    async with opened(file, index=6) as screen:
        await screen.shows(6)
        await screen.press("at")
        assert "It is from 2026-11-30 02:00:00 to 02:00:22 UTC." in screen.text
        await screen.press(*typed, "enter")
        await screen.shows(number)
        assert "  playing  " in screen.lines[0]


async def test_what_is_no_time_of_it_is_told_where_it_was_typed(file: Path) -> None:
    async with opened(file) as screen:
        await screen.shows(0)
        for typed, told in (
            ("noon[b]", "'noon[b]' is no time: write 14:03"),
            ("23:00", "does not reach 23:00"),
        ):
            await screen.press("at", *typed, "enter")
            assert told in screen.text
            await screen.press("escape")
            await screen.shows(0)


@pytest.fixture
def renamed(file: Path) -> Path:
    return file.rename(file.with_name("night\x1b[31m.rec"))


async def test_its_name_is_shown_and_no_terminal_obeys_it(renamed: Path) -> None:
    async with opened(renamed) as screen:
        await screen.shows(0)
        assert "night\\x1b[31m.rec" in screen.lines[0]
        await screen.press("at", *"23:00", "enter")
        await screen.until(lambda: "does not reach 23:00" in screen.text)
        assert "\\x1b[31m.rec" in screen.text
        assert "\x1b" not in screen.text


@pytest.mark.parametrize(
    "away", [("full_stop",), ("space",), ("at", *"+0s", "enter")], ids=["step", "play", "go"]
)
async def test_what_was_found_is_told_where_it_was_found_alone(file: Path, away: tuple[str, ...]) -> None:
    async with opened(file) as screen:
        await screen.shows(0)
        await screen.press("n")
        await screen.until(lambda: f" ✗ {STALE.summary}"[:100] in screen.text)
        await screen.press(*away)
        await screen.until(lambda: f" ✗ {STALE.summary}"[:100] not in screen.text)


async def test_history_begins_where_it_goes_on_from(file: Path) -> None:
    async with opened(file) as screen:
        await screen.shows(0)
        await screen.press("5", "full_stop", "full_stop")
        await screen.shows(2)
        await screen.until(lambda: "job-02" in screen.text)
        await screen.press("comma")
        await screen.shows(1)
        assert "job-0" not in screen.text


async def test_nothing_can_be_cancelled_or_terminated(file: Path) -> None:
    async with opened(file) as screen:
        await screen.shows(0)
        for key in ("c", "K"):
            await screen.press(key)
            assert "This is a recording: nothing in it can be cancelled or terminated." in screen.text
            assert len(screen.app.screen_stack) == 1
        assert {source.propose for source in screen.app.servers.sources} == {None}


async def test_the_help_and_the_palette_list_its_keys_and_none_for_a_server(file: Path) -> None:
    shown = {
        (entry.label.strip(), entry.text)
        for section in explained(ReplayApp.groups)
        for entry in section.entries
    }
    for key in (*PLAY, *MOVE, *VIEWS, *LOOK):
        assert (key.shown, key.does) in shown
    for key in (*ACT[:2], *RUN[:3]):
        assert (key.shown, key.does) not in shown
    async with opened(file, size=(160, 60)) as screen:
        await screen.shows(0)
        await screen.press("question_mark")
        for key in PLAY:
            assert key.does in screen.text
        assert "terminate" not in screen.text
        await screen.press("escape", "colon", *"go to")
        await screen.until(lambda: "go to a time" in screen.text)
        await screen.press("enter")
        await screen.until(lambda: "It is from" in screen.text)
        commands = {command.title for command in screen.app.get_system_commands(screen.app.screen)}
        assert commands >= {key.does for key in PLAY}
        assert not any("terminate" in command or "cancel" in command for command in commands)


async def test_keys_are_typed_where_something_is_typed(file: Path) -> None:
    async with opened(file) as screen:
        await screen.shows(0)
        await screen.press("slash", *"n.,N+-", "space", "left", "at")
        assert screen.app._filter.value == "n.,N+-@ "
        await screen.shows(0)
        assert "  playing  " in screen.lines[0]


async def test_only_the_chosen_targets_are_shown_and_searched(file: Path) -> None:
    polls = [
        [poll(number), replace(make_report(HOLDER), target="other", taken_at=ago(-2 * number))]
        for number in range(7)
    ]
    path = file.with_name("two.rec")
    record(path, polls)
    async with opened(path, targets=("other",)) as screen:
        await screen.until(lambda: "other" in screen.lines[0] and "1 held" in screen.lines[1])
        await screen.press("n")
        await screen.until(lambda: "Nothing more was found after this." in screen.text)
    async with opened(path, targets=("localhost:5432", "other")) as screen:
        await screen.until(lambda: "2 targets" in screen.lines[0] and "2 held" in screen.lines[1])
        await screen.press("n")
        await screen.until(lambda: f" {STALE_FROM + 1}/7" in screen.lines[0])


def damage(file: Path, number: int) -> int:
    """Damage a poll of a recording; return where it starts."""
    with Recording.open(file) as recording:
        start = recording._index.starts[number]
    content = bytearray(file.read_bytes())
    content[start + HEADER_SIZE] ^= 0xFF
    file.write_bytes(content)
    return start


async def test_a_damaged_poll_is_told_and_others_are_shown(file: Path) -> None:
    start = damage(file, 2)
    async with opened(file) as screen:
        await screen.shows(0)
        await screen.press("full_stop", "full_stop")
        await screen.until(lambda: f"is damaged at byte {start}" in " ".join(screen.text.split()))
        await screen.wait(60)
        told = " ".join(screen.text.split())
        assert f"is damaged at byte {start}: choose another time. What is shown was so at 02:00:02." in told
        await screen.press("full_stop")
        await screen.shows(3)
        assert "is damaged" not in screen.text


async def test_history_ends_where_a_damaged_poll_is_gone_to(file: Path) -> None:
    start = damage(file, 2)
    async with opened(file, index=5) as screen:
        await screen.shows(5)
        await screen.press("5", "full_stop")
        await screen.until(lambda: "job-06" in screen.text)
        await screen.press("at", *"+4s", "enter")
        await screen.until(lambda: f"is damaged at byte {start}" in " ".join(screen.text.split()))
        await screen.press("full_stop")
        await screen.shows(3)
        assert "Nothing was taken or released since" in screen.text


@pytest.mark.parametrize("size", [(40, 10), (60, 14), (80, 24), (240, 60)])
async def test_it_fits_any_size_and_ascii(file: Path, size: tuple[int, int]) -> None:
    async with opened(file, size=size, look=Look(ASCII, "ascii")) as screen:
        await screen.until(lambda: "job-00" in screen.text)
        assert screen.text.isascii()
        assert "02:00:00" in screen.lines[0]
        await screen.press("at")
        assert screen.text.isascii()
        lines = screen.app.screen._compositor.render_strips()
        assert [line.cell_length for line in lines] == [size[0]] * size[1]

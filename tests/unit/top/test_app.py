from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from pglock_inspect.errors import ServerFailure
from pglock_inspect.model import Name
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.top.keys import ACT, LOOK, MOVE, RUN, VIEWS
from pglock_inspect.top.ui.pane import Pane
from pglock_inspect.top.ui.table import Table
from tests.support.reports import (
    HOLDER,
    PREPARED,
    SESSION,
    STALE,
    UNREACHABLE,
    WAITER,
    lock_of,
    make_report,
    numbered,
)
from tests.support.screens import open_top

REPORT = make_report(WAITER, PREPARED, HOLDER, findings=(STALE,))


# --- What is seen -------------------------------------------------------------------------------------


async def test_eighty_columns() -> None:
    async with open_top(REPORT) as screen:
        assert screen.lines[:8] == [
            " pglock-inspect  localhost:5432  PostgreSQL 18.6  primary  connected  every 2 s",
            " ✗ 1 critical  ▲ 0 warning  • 0 info                          2 held  1 waiting",
            " 1 LOCKS  2 jobs  3 waits  4 findings  5 history",
            "   JOB                   STATE               FOR  OF MAX          WAIT      PID",
            " ✗ send_daily_digest     held           ≥ 42 min  ━━━━━━▶ 10 min     1     4711",
            "   7,-42                 prepared        ≥ 5 min  ━───────── 1 h     –        –",  # noqa: RUF001
            "   send_daily_digest     waiting          12 min                     –     4720",  # noqa: RUF001
            "",
        ]
        assert (
            screen.lines[-1]
            == " Enter details  / filter  s sort  e export  y copy  ? help  q quit          1/3"
        )
        assert " Why" in screen.lines


async def test_a_hundred_and_sixty_columns_tell_all_that_a_person_asks_for() -> None:
    async with open_top(REPORT, size=(160, 50)) as screen:
        assert screen.lines[3].split() == [
            *("JOB", "KEY", "STATE", "FOR", "OF", "MAX", "WAIT", "PID"),
            *("USER", "APPLICATION", "CLIENT", "QUERY"),
        ]
        assert screen.rows[0].split() == [
            *("✗", "send_daily_digest", "-1957215242", "held", "≥", "42", "min", "━━━━━━▶", "10", "min", "1"),
            *("4711", "app", "worker-3", "10.0.0.7:51234", "COMMIT"),
        ]


async def test_forty_columns_and_ten_rows() -> None:
    async with open_top(REPORT, size=(40, 10)) as screen:
        assert screen.lines == [
            " localhost:5432  primary      connected",
            " ✗ 1 critical  ▲ 0 warning  • 0 info",
            "  JOB            STATE              FOR",
            "✗ send_daily_di… held          ≥ 42 min",
            "  7,-42          prepared       ≥ 5 min",
            "  send_daily_di… waiting         12 min",
            "",
            "",
            "",
            " / filter  ? help  q quit           1/3",
        ]


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (160, 50), (240, 20), (400, 200), (41, 200), (400, 10)])
async def test_every_line_fits_at_any_size(size: tuple[int, int]) -> None:
    async with open_top(numbered(300), size=size) as screen:
        for _ in range(2):
            lines = screen.app.screen._compositor.render_strips()
            assert [line.cell_length for line in lines] == [size[0]] * size[1]
            assert "job-000" in screen.text
            await screen.press("enter")


async def test_a_resize_lays_everything_out_anew() -> None:
    async with open_top(REPORT, size=(160, 50)) as screen:
        await screen.pilot.resize_terminal(40, 10)
        assert screen.lines[3] == "✗ send_daily_di… held          ≥ 42 min"
        await screen.pilot.resize_terminal(240, 20)
        await screen.pilot.pause()
        assert "SESSION" not in screen.lines[3]
        assert "Why" in screen.lines[3]  # the details stand beside the table


async def test_the_details_stand_below_where_there_is_height() -> None:
    async with open_top(REPORT, size=(80, 24)) as screen:
        assert screen.app.query_one(Pane).display
        await screen.pilot.resize_terminal(80, 19)
        await screen.pilot.pause()
        assert not screen.app.query_one(Pane).display


async def test_nothing_is_held() -> None:
    async with open_top(make_report()) as screen:
        assert screen.rows == ["No advisory lock is held or waited for."]
        await screen.press("down", "end", "enter", "escape", "slash", "x", "escape")
        assert screen.selected() is None


async def test_while_it_connects() -> None:
    async with open_top() as screen:
        assert "db.example.org:5432" in screen.lines[0]
        assert "connecting" in screen.lines[0]
        assert screen.rows == ["Waiting for the server's first answer."]
        await screen.press("down", "enter", "escape", "space", "question_mark", "escape", "slash", "a")
        await screen.show(REPORT)
        assert screen.rows == ["None of 3 rows fits the filter. Esc clears it."] or screen.rows


async def test_hostile_text_is_inert() -> None:
    hostile = "\x1b[2J\x1b]0;x\x07[bold red]x[/]\u202e\n" + "z" * 1_000_000
    lock = replace(
        HOLDER,
        name=Name(hostile, "query"),
        database=hostile,
        session=replace(SESSION, application_name=hostile, user=hostile, query=hostile),
    )
    async with open_top(make_report(lock), size=(400, 50)) as screen:
        assert screen.text.replace("\n", "").isprintable()
        assert r"\x1b[2J\x1b]0;x\x07[bold red]x[/]\u202e" in screen.rows[0]


async def test_ascii_only() -> None:
    lock = replace(HOLDER, name=Name("名前 é", "config"))
    async with open_top(make_report(lock, WAITER), size=(160, 50), look=Look(ASCII, "ascii")) as screen:
        for keys in ([], ["enter"], ["escape", "slash", "n"], ["escape", "question_mark"]):
            await screen.press(*keys)
            assert screen.text.isascii()


@pytest.mark.parametrize("look", [Look(), Look(ASCII, "ascii")])
@pytest.mark.parametrize("width", [40, 80, 160, 240])
async def test_titles_stand_above_their_columns(look: Look, width: int) -> None:
    async with open_top(REPORT, size=(width, 24), look=look) as screen:
        heads, row = screen.lines[3], screen.lines[4]
        assert row.index("held") == heads.index("STATE")
        assert row.index(" min") + len(" min") == heads.index("FOR") + len("FOR")


# --- Keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "pid"),
    [
        (["down"], 1001),
        (["j", "j"], 1002),
        (["down", "down", "up"], 1001),
        (["j", "j", "k"], 1001),
        (["up"], 1000),
        (["end"], 1299),
        (["G"], 1299),
        (["end", "down"], 1299),
        (["end", "home"], 1000),
        (["G", "g"], 1000),
        (["pagedown"], 1013),
        (["pagedown", "pagedown", "pageup"], 1013),
        (["end", "pageup"], 1286),
    ],
)
async def test_moving(keys: list[str], pid: int) -> None:
    async with open_top(numbered(300), size=(80, 19)) as screen:
        await screen.press(*keys)
        assert screen.selected() == (pid, f"job-{pid - 1000:03}")
        assert f"job-{pid - 1000:03}" in screen.text
        assert screen.lines[-1].endswith(f" {pid - 999}/300")


async def test_a_click_selects() -> None:
    async with open_top(numbered(300)) as screen:
        await screen.pilot.click(Table, offset=(10, 3))
        assert screen.selected() == (1003, "job-003")


async def test_the_selection_stays_on_its_lock_while_rows_move() -> None:
    async with open_top(numbered(30)) as screen:
        await screen.press("down", "down")
        assert screen.selected() == (1002, "job-002")
        worse = [replace(lock_of(number), severity="critical") for number in range(10, 30)]
        await screen.show(make_report(*(lock_of(number) for number in range(10)), *worse))
        assert screen.selected() == (1002, "job-002")
        assert "job-002" in " ".join(screen.rows)
        assert screen.lines[-1].endswith(" 23/30")


async def test_the_selection_stays_on_a_waiter_that_got_its_lock() -> None:
    async with open_top(make_report(HOLDER, WAITER)) as screen:
        await screen.press("down")
        granted = replace(WAITER, granted=True, held=HOLDER.held, waited_seconds=None, severity="critical")
        await screen.show(make_report(granted, lock_of(1), lock_of(2)))
        assert screen.selected() == (4720, "send_daily_digest")


async def test_where_the_selected_lock_is_gone_its_neighbour_is_selected() -> None:
    async with open_top(numbered(3)) as screen:
        await screen.press("end")
        await screen.show(numbered(2))
        assert screen.selected() == (1001, "job-001")
        await screen.show(make_report())
        assert screen.selected() is None
        await screen.show(numbered(3))
        assert screen.selected() == (1001, "job-001")


async def test_the_filter_narrows_while_it_is_typed() -> None:
    async with open_top(numbered(30)) as screen:
        await screen.press("slash", *"JOB-02")
        assert [row.split()[0] for row in screen.rows] == [f"job-02{digit}" for digit in range(10)][
            : len(screen.rows)
        ]
        assert screen.lines[-1].startswith(" Enter keep  Esc clear")
        assert screen.lines[-1].endswith(" 1/10")
        await screen.press("enter", "down")
        assert screen.selected() == (1021, "job-021")
        assert screen.lines[-1].endswith("filter JOB-02  2/10")
        await screen.show(numbered(25))
        assert screen.lines[-1].endswith("filter JOB-02  2/5")
        await screen.press("escape")
        assert screen.lines[-1].endswith(" 22/25")


async def test_a_filter_shows_what_it_leaves_wherever_the_table_was_scrolled_to() -> None:
    async with open_top(numbered(300), size=(80, 19)) as screen:
        await screen.press("G", "slash", *"job-001")
        assert [row.split()[0] for row in screen.rows] == ["job-001"]
        await screen.press("escape")
        assert screen.selected() == (1001, "job-001")
        assert len(screen.rows) == 14


async def test_keys_are_letters_while_a_filter_is_typed() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("slash", *"qjkgG+-", "space", "question_mark")
        assert screen.app.is_running
        assert screen.lines[-2] == " / qjkgG+- ?"
        assert screen.rows == ["None of 3 rows fits the filter. Esc clears it."]
        assert "Sort by" not in screen.text
        await screen.press("escape")
        assert len(screen.rows) == 3


async def test_where_no_row_is_what_concerns_the_server_is_told() -> None:
    full = replace(STALE, rule="lock-table-filling", summary="the lock table fills up", key=None, job=None)
    nothing = "Nothing was found that concerns it as a whole."
    for findings, told, untold in (((STALE,), nothing, full.summary), ((full,), full.summary, nothing)):
        async with open_top(make_report(HOLDER, findings=findings)) as screen:
            await screen.press("slash", *"nobody", "enter")
            assert told in screen.text
            assert untold not in screen.text


async def test_a_filter_can_be_changed() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("slash", *"billing", "enter")
        assert screen.selected() == (None, "7,-42")
        await screen.press("slash", *["backspace"] * 7, *"worker-1", "tab")
        assert screen.selected() == (4720, "send_daily_digest")


async def test_a_pause_holds_the_picture() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("space")
        await screen.show(numbered(5))
        await screen.wait(7)
        assert len(screen.rows) == 3
        assert screen.lines[3] == " • Paused. What is shown is 7 s old; Space goes on."
        await screen.press("j")
        assert screen.selected() == (None, "7,-42")
        await screen.press("space")
        assert len(screen.rows) == 5
        assert "Paused" not in screen.text


async def test_the_interval_goes_up_and_down_in_steps() -> None:
    async with open_top(REPORT) as screen:
        for key, seconds, shown in (
            ("plus", 5.0, "every 5 s"),
            ("minus", 2.0, "every 2 s"),
            ("minus", 1.0, "every 1 s"),
            ("minus", 0.5, "every 500 ms"),
            ("minus", 0.5, "every 500 ms"),
            *[("equals_sign", seconds, "every") for seconds in (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 60.0)],
        ):
            await screen.press(key)
            assert screen.poller.interval == seconds
            assert shown in screen.lines[0]


async def test_the_details_take_the_screen_and_give_it_back() -> None:
    async with open_top(REPORT, size=(60, 15)) as screen:
        assert "Why" not in screen.text
        await screen.press("enter")
        assert screen.lines[3].strip("━") == " send_daily_digest "
        assert screen.lines[4] == " Why"
        assert screen.lines[-1].startswith(" Esc back")
        assert "JOB" not in screen.text
        await screen.press("down", "j")
        assert screen.lines[4] != " Why"
        await screen.press("G")
        assert screen.lines[-2].split()[0] == "scope"
        await screen.press("g", "down", "k")
        assert screen.lines[4] == " Why"
        for key in ("enter", "escape"):
            await screen.press(key)
            assert "JOB" in screen.text
            await screen.press("enter")
            assert "JOB" not in screen.text
        await screen.press("escape", "down")
        assert screen.selected() == (None, "7,-42")


async def test_the_details_follow_the_selection_and_the_reports() -> None:
    async with open_top(REPORT, size=(160, 50)) as screen:
        await screen.press("down")
        assert "transfer-17" in screen.text
        await screen.show(
            make_report(replace(PREPARED, waiters=1), replace(WAITER, key=PREPARED.key, name=None))
        )
        assert "pid 4720     for 12 min, worker-1" in screen.text


async def test_tab_moves_the_arrows_to_the_details_and_back() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("tab", "down")
        assert screen.selected() == (4711, "send_daily_digest")
        assert " Why" not in screen.lines
        assert screen.lines[-1].startswith(" Esc back")
        await screen.press("tab", "down")
        assert screen.selected() == (None, "7,-42")


async def test_details_of_the_same_lock_stay_where_they_were_scrolled_to() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("tab", "down")
        await screen.show(make_report(WAITER, PREPARED, HOLDER, findings=(STALE,)))
        assert " Why" not in screen.lines
        await screen.press("tab", "down")
        assert " Why" in screen.lines


@pytest.mark.parametrize("closing", ["escape", "question_mark", "q", "enter", "space"])
async def test_the_help_tells_every_key(closing: str) -> None:
    async with open_top(REPORT, size=(80, 50)) as screen:
        await screen.press("question_mark")
        for key in (*MOVE, *VIEWS, *LOOK, *ACT, *RUN):
            assert re.search(rf"[│ ] {re.escape(key.shown)} +{re.escape(key.does)}", screen.text), key
        await screen.press(closing)
        assert "Ctrl-C" not in screen.text
        assert screen.app.is_running


async def test_the_help_scrolls_where_it_does_not_fit() -> None:
    async with open_top(REPORT, size=(40, 10)) as screen:
        await screen.press("question_mark", "end")
        assert "all words have to fit" in screen.text


@pytest.mark.parametrize(
    "keys", [["q"], ["ctrl+c"], ["slash", "ctrl+c"], ["question_mark", "ctrl+c"], ["enter", "q"]]
)
async def test_quitting(keys: list[str]) -> None:
    async with open_top(REPORT) as screen:
        await screen.press(*keys)
    assert screen.app.return_value is None
    assert screen.app.return_code == 0


# --- Trouble ------------------------------------------------------------------------------------------


async def test_a_server_that_cannot_be_reached_at_first_ends_it() -> None:
    async with open_top() as screen:
        await screen.show(UNREACHABLE)
    error = screen.app.return_value
    assert isinstance(error, ServerFailure)
    assert (str(error), error.reason) == (UNREACHABLE.error, "connect")


async def test_an_error_of_the_poll_ends_it() -> None:
    error = RuntimeError("a bug")
    async with open_top(REPORT) as screen:
        await screen.show(error)
    assert screen.app.return_value is error


async def test_an_error_of_its_own_ends_it_without_a_stack_on_the_screen(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):  # noqa: PT012 - Textual hands it to the test as well
        async with open_top(REPORT) as screen:
            monkeypatch.setattr("pglock_inspect.top.showing.matching", broken)
            await screen.show(REPORT)
    assert isinstance(screen.app.return_value, ZeroDivisionError)
    assert "Traceback" not in "".join(capfd.readouterr())


async def test_a_lost_server_shows_a_banner_and_comes_back_by_itself() -> None:
    async with open_top(REPORT) as screen:
        await screen.wait(30)
        await screen.show(UNREACHABLE)
        await screen.wait(4)
        assert screen.lines[3].startswith(" ✗ What is shown is 34 s old: cannot connect to")
        assert "lost" in screen.lines[0]
        assert len(screen.rows) == 3
        await screen.press("down")
        assert screen.selected() == (None, "7,-42")
        await screen.show(REPORT)
        assert screen.lines[3].startswith("   JOB")
        assert "connected" in screen.lines[0]


async def test_the_longest_error_leaves_room_for_the_table() -> None:
    async with open_top(REPORT, size=(40, 10)) as screen:
        await screen.show(replace(UNREACHABLE, error="cannot " * 1000))
        assert [line[:3] for line in screen.lines[2:6]] == [" ✗ ", " ca", " ca", "  J"]
        assert len(screen.rows) > 1


async def test_keys_work_while_a_poll_hangs() -> None:
    async with open_top(REPORT) as screen:
        await screen.wait(20)
        assert "▲ What is shown is 20 s old: the server has not answered for 20 s." in screen.text
        await screen.press("down")
        assert screen.selected() == (None, "7,-42")


async def test_only_lines_that_changed_are_painted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_top(REPORT) as screen:
        painted: list[int] = []
        monkeypatch.setattr(Table, "repaint", lambda _, lines: painted.extend(lines))
        await screen.show(make_report(WAITER, PREPARED, HOLDER, findings=(STALE,)))
        assert painted == []
        await screen.show(
            make_report(replace(WAITER, waited_seconds=780.0), PREPARED, HOLDER, findings=(STALE,))
        )
        assert painted == [2]
        await screen.press("down")
        assert painted == [2, 0, 1]


async def test_ten_thousand_rows_cost_those_in_sight() -> None:
    async with open_top(numbered(10_000)) as screen:
        table = screen.app.query_one(Table)
        await screen.press("end")
        assert screen.selected() == (10_999, "job-9999")
        assert len(table._drawn) <= 2 * table.size.height


@pytest.mark.parametrize(("no_color", "theme"), [("1", "pglock-ansi"), (None, "pglock-dark")])
async def test_no_color(monkeypatch: pytest.MonkeyPatch, no_color: str | None, theme: str) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    async with open_top(REPORT) as screen:
        assert screen.app.theme == theme

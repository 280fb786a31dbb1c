"""What keys do beyond looking."""

from __future__ import annotations

import csv
import json
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pglock_inspect.errors import Refused, ServerFailure
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Name
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.top.acting import Outcome, Proposal
from tests.support.reports import HOLDER, PREPARED, SESSION, STALE, WAITER, make_report
from tests.support.screens import open_top

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pglock_inspect.model import Lock, Report
    from pglock_inspect.top.acting import Action
    from tests.support.screens import Screen

REPORT = make_report(WAITER, PREPARED, HOLDER, findings=(STALE,))


def job(number: int, name: str, pid: int) -> Lock:
    return replace(
        HOLDER,
        key=AdvisoryKey.from_bigint(number),
        name=Name(name, "config"),
        pid=pid,
        session=replace(SESSION, pid=pid),
    )


SHUFFLED = make_report(job(1, "beta", 30), job(2, "gamma", 10), job(3, "alpha", 20))


def names(screen: Screen) -> list[str]:
    return [row.split()[1] for row in screen.rows]


# --- Sorting ------------------------------------------------------------------------------------------


async def test_the_menu_sorts() -> None:
    async with open_top(SHUFFLED) as screen:
        assert names(screen) == ["beta", "gamma", "alpha"]
        await screen.press("s")
        assert "Sort by" in screen.text
        await screen.press("j", "enter")
        assert names(screen) == ["alpha", "beta", "gamma"]
        assert "JOB▾" in screen.lines[3]
        assert "by job" in screen.lines[-1]
        await screen.press("r")
        assert names(screen) == ["gamma", "beta", "alpha"]
        assert "JOB▴" in screen.lines[3]
        await screen.press("s", "down", "escape")
        assert names(screen) == ["gamma", "beta", "alpha"]


async def test_less_and_greater_go_from_column_to_column() -> None:
    async with open_top(SHUFFLED) as screen:
        await screen.press("greater_than_sign")
        assert "JOB▾" in screen.lines[3]
        await screen.press("less_than_sign", "less_than_sign")
        assert "PID▾" in screen.lines[3]  # the last one that there is room for
        assert names(screen) == ["gamma", "alpha", "beta"]
        await screen.press("greater_than_sign")
        assert "▾" not in screen.lines[3]


async def test_the_selection_stays_while_the_order_changes() -> None:
    async with open_top(SHUFFLED) as screen:
        await screen.press("j", "greater_than_sign")
        assert screen.selected() == (10, "gamma")
        assert screen.lines[-1].endswith("3/3")


# --- Copying and exporting ----------------------------------------------------------------------------


async def test_copies_the_row() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("y")
        assert screen.app.clipboard == "✗  send_daily_digest  held  ≥ 42 min  ━━━━━━▶ 10 min  1  4711"
        assert screen.lines[-3].startswith(" Copied, if the terminal allows it: ✗ send_daily_digest held")
        await screen.wait(11)
        assert "Copied" not in screen.text


async def test_copies_all_about_it() -> None:
    async with open_top(REPORT) as screen:
        await screen.press("Y")
        assert "send_daily_digest in database app is STALE" in screen.app.clipboard
        assert "classid 4294967295, objid 2337752054, objsubid 1" in screen.app.clipboard


def files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())


async def export(screen: Screen, format_: str) -> None:
    await screen.press("e")
    assert "Export" in screen.text
    await screen.press(*(["down"] if format_ == "CSV" else []), "enter")


async def test_exports_what_is_shown_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_top(REPORT, size=(160, 50)) as screen:
        await screen.press("slash", *"app:worker", "enter")
        for _ in range(2):
            await export(screen, "JSON")
        assert "2 rows are in" in screen.text
    second, first = files(tmp_path)
    assert (first.name, second.name) == (
        "pglock-locks-20261130T020000Z.json",
        "pglock-locks-20261130T020000Z-2.json",
    )
    rows = json.loads(first.read_text())
    assert [(row["target"], row["job"], row["pid"]) for row in rows] == [
        ("localhost:5432", "send_daily_digest", 4711),
        ("localhost:5432", "send_daily_digest", 4720),
    ]
    assert first.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("key", "12345")
async def test_each_view_can_be_exported(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    evil = replace(HOLDER, name=Name("=cmd()", "config"))
    async with open_top(make_report(), size=(160, 50)) as screen:
        await screen.show(make_report(evil, WAITER, findings=(STALE,)))
        await screen.press(key)
        await export(screen, "CSV")
        await export(screen, "JSON")
        count = screen.app.table.position[1]
    as_csv, as_json = files(tmp_path)
    rows = list(csv.DictReader(as_csv.read_text().splitlines()))
    assert len(rows) == len(json.loads(as_json.read_text())) == count
    assert key == "2" or count > 0
    assert not any(value.startswith("=") for row in rows for value in row.values())


async def test_where_nothing_can_be_written_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pglock_inspect.top.export.replace_file", full)
    async with open_top(REPORT, size=(160, 50)) as screen:
        await export(screen, "JSON")
        assert "could not be written" in screen.text
        assert "No space left on device." in screen.text


# --- Commands by name ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["colon", "ctrl+p"])
async def test_the_palette_does_what_keys_do(key: str) -> None:
    async with open_top(REPORT) as screen:
        await screen.press(key, *"history")
        await screen.app.workers.wait_for_complete()
        await screen.press("enter")
        for _ in range(20):
            await screen.pilot.pause(0.05)
            if "5 HISTORY" in screen.text:
                break
        assert "5 HISTORY" in screen.text


async def test_in_ascii_all_boxes_are_ascii() -> None:
    async with open_top(REPORT, size=(100, 40), look=Look(ASCII, "ascii"), propose=propose()) as screen:
        for keys in (["s"], ["e"], ["colon"], ["K"], ["2"], ["3"], ["4"], ["5"]):
            await screen.press(*keys)
            assert screen.text.isascii(), screen.text
            await screen.press("escape")


# --- Ending processes ---------------------------------------------------------------------------------


def propose(
    carry_out: Callable[[], Outcome] = lambda: Outcome("pid 4711 is gone; it is free", done=True),
    asked: list[tuple[int | None, Action]] | None = None,
) -> Callable[[Report, Lock, Action], Proposal]:
    def make(_: Report, lock: Lock, action: Action) -> Proposal:
        if asked is not None:
            asked.append((lock.pid, action))
        if lock.pid is None:
            raise Refused("no signal reaches it", instead="ROLLBACK PREPARED 'transfer-17'")
        return Proposal(f"{action} pid {lock.pid}?", ("it holds \x1b[2J", "it loses all"), carry_out)

    return make


async def work_off(screen: Screen) -> None:
    """Do in this thread what waits for the poller's."""
    while not screen.poller._work.empty():
        screen.poller._work.get()()
    await screen.pilot.pause()


@pytest.mark.parametrize(("key", "action"), [("c", "cancel"), ("K", "terminate")])
async def test_asks_and_then_does_it_in_the_poller(key: str, action: Action) -> None:
    asked: list[tuple[int | None, Action]] = []
    async with open_top(REPORT, propose=propose(asked=asked)) as screen:
        await screen.press(key)
        assert asked == [(4711, action)]
        for text in (
            f"{action} pid 4711?",
            r"it holds \x1b[2J.",
            "it loses all.",
            "The server is asked again",
        ):
            assert text in screen.text
        await screen.press("y")
        assert "Under way" in screen.text
        await work_off(screen)
        assert "pid 4711 is gone; it is free" in screen.text


@pytest.mark.parametrize("key", ["n", "escape", "q", "enter", "K", "space"])
async def test_nothing_but_y_is_a_yes(key: str) -> None:
    async with open_top(REPORT, propose=propose()) as screen:
        await screen.press("K", key)
        assert screen.poller._work.empty()
        if key in {"n", "escape", "q"}:
            assert "Nothing was done." in screen.text
        assert screen.app.is_running


@pytest.mark.parametrize("error", [Refused("pid 4711 has gone on"), ServerFailure("it is away", "connect")])
async def test_a_refusal_of_the_server_is_told(error: Exception) -> None:
    def refuse() -> Outcome:
        raise error

    async with open_top(REPORT, propose=propose(refuse)) as screen:
        await screen.press("K", "y")
        await work_off(screen)
        assert str(error) in screen.text


async def test_what_cannot_be_ended_is_told_with_what_can_be_done() -> None:
    async with open_top(REPORT, propose=propose()) as screen:
        await screen.press("j", "K")
        assert "no signal reaches it ROLLBACK PREPARED 'transfer-17'" in screen.text


@pytest.mark.parametrize("key", ["c", "K"])
async def test_read_only_is_read_only(key: str) -> None:
    async with open_top(REPORT) as screen:
        await screen.press(key, "y")
        await screen.press(key)
        assert "This view is read-only" in screen.text
        assert screen.poller._work.empty()


async def test_a_row_without_a_lock_has_nobody_to_end() -> None:
    finding = replace(STALE, key=None, pid=None, job=None)
    async with open_top(make_report(findings=(finding,)), propose=propose()) as screen:
        await screen.press("4", "K")
        assert "This row is about no lock" in screen.text

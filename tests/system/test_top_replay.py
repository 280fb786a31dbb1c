"""A recording played in a real terminal, where no server is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pglock_inspect.recording import Recording
from tests.support.command import COMMAND, Pglock
from tests.support.tmux import terminal
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Connect

JOBS = """
[[jobs]]
name = "send_daily_digest"
max_held = "1ms"
"""


def test_a_night_is_played_where_no_server_is(pglock: Pglock, connect: Connect, tmp_path: Path) -> None:
    file = tmp_path / "night.rec"
    pglock.directory.joinpath("pglock-inspect.toml").write_text(JOBS)
    pglock("record", str(file), "--every", "100ms", "--for", "500ms")
    with connect("worker-3") as holder:
        holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
        pglock("record", str(file), "--every", "100ms", "--for", "500ms")
    with Recording.open(file) as recording:
        count, finding = len(recording), recording.next_finding(0)
    assert finding

    here = tmp_path / "here"
    here.mkdir()
    away = Pglock(here, "host=/nowhere")
    command = [*COMMAND, "top", "--replay", str(file)]
    with terminal(command, here, away.environment(TERM="tmux-256color"), size=(110, 24)) as screen:
        screen.wait_for(f" {count}/{count}")  # it plays to its end
        screen.wait_for("  end  ")
        screen.wait_for("✗ send_daily_digest")
        screen.press("N")
        screen.wait_for(f" {finding + 1}/{count}")
        screen.wait_for("  stopped  ")
        screen.press("@", "+0s", "Enter")
        screen.wait_for(f" 1/{count}")
        screen.wait_for("No advisory lock is held or waited for.")
        screen.press("n")
        screen.wait_for(f" {finding + 1}/{count}")
        screen.wait_for("send_daily_digest is stale: pid ")
        screen.press("+", "+")
        screen.wait_for("  4×  ")  # noqa: RUF001
        screen.press(",")
        screen.wait_for(f" {finding}/{count}")
        screen.press("?")
        screen.wait_for("where more was found")
        screen.press("Escape")
        wait_until(lambda: "where more was found" not in screen.text, "the help is closed")
        screen.press("K")
        screen.wait_for("nothing in it can be cancelled or terminated")
        screen.press("q")
        assert screen.wait_for_end() == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--replay", "nowhere.rec"), "nowhere.rec cannot be read (No such file or directory)"),
        (("--at", "+1m"), "--at is a time of a recording: give --replay FILE too"),
        (("--replay", "x.rec", "--every", "1s"), "--every is a pause between polls"),
    ],
)
def test_what_cannot_be_played_is_told_in_a_sentence(
    tmp_path: Path, options: tuple[str, ...], told: str
) -> None:
    away = Pglock(tmp_path, "host=/nowhere").environment(TERM="tmux-256color")
    with terminal([*COMMAND, "top", *options], tmp_path, away, size=(120, 20)) as screen:
        screen.wait_for(told)
        assert screen.wait_for_end() == 3

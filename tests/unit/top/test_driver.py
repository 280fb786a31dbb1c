from __future__ import annotations

import os
from contextlib import closing
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from textual import events

from pglock_inspect.top.ui.driver import Driver, Told
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.message import Message


class Reader:
    """A driver's input thread, and a pipe as its terminal."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[str] = []
        monkeypatch.setattr(Driver, "process_message", self._hear)
        self.driver = Driver.__new__(Driver)
        self.driver.fileno, self.terminal = os.pipe()
        self.driver.exit_event, self.driver._debug = Told(), False
        self.thread = Thread(target=self.driver.run_input_thread)
        self.thread.start()

    def _hear(self, message: Message) -> None:
        assert isinstance(message, events.Key)
        self.keys.append(message.key)

    def wait_for(self, *keys: str) -> None:
        wait_until(lambda: self.keys == [*keys], f"{keys} instead of {self.keys}")

    def close(self) -> None:
        self.driver.exit_event.set()
        self.thread.join(10)
        assert not self.thread.is_alive()


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    with closing(Reader(monkeypatch)) as reader:
        yield reader


def test_keys_are_told_and_an_escape_that_nothing_follows(reader: Reader) -> None:
    os.write(reader.terminal, b"j")
    reader.wait_for("j")
    os.write(reader.terminal, b"k\x1b")
    reader.wait_for("j", "k", "escape")
    os.write(reader.terminal, b"\x1b[A")
    reader.wait_for("j", "k", "escape", "up")


def test_a_character_may_come_in_parts(reader: Reader) -> None:
    start, end = "é".encode()[:1], "é".encode()[1:]
    os.write(reader.terminal, b"j" + start)
    reader.wait_for("j")
    os.write(reader.terminal, end)
    wait_until(lambda: len(reader.keys) == 2, "the character is told")


def test_it_ends_with_the_terminal(reader: Reader) -> None:
    os.close(reader.terminal)
    reader.thread.join(10)
    assert not reader.thread.is_alive()


def test_it_can_begin_again() -> None:
    told = Told()
    for _ in range(2):
        told.set()
        assert told.is_set()
        told.clear()
        assert not told.is_set()

"""Reading keys without a look for them ten times in a second, as Textual does: hours pass without any."""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from threading import Event
from typing import TYPE_CHECKING

from textual.drivers.linux_driver import LinuxDriver, XTermParser  # type: ignore[attr-defined]

if TYPE_CHECKING:
    from textual.app import App

_UNFINISHED = 0.05
"""Seconds between two looks at whether an Escape is a key of its own, or the start of another."""
_LOOKS = 6


class Driver(LinuxDriver):
    """Textual's driver, whose input thread sleeps until there is input or it is told to end."""

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self.exit_event = Told()

    def run_input_thread(self) -> None:
        """Tell of keys until the exit event."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")().decode
        exit_event, looks = self.exit_event, 0
        assert isinstance(exit_event, Told)
        while not exit_event.is_set():
            timeout = _UNFINISHED if looks else None
            ready, _, _ = select.select([self.fileno, exit_event.fileno], [], [], timeout)
            looks = max(looks - 1, 0)
            if self.fileno in ready:
                read = os.read(self.fileno, 4096)
                if not read:
                    return  # the terminal is gone
                looks = _LOOKS
                text = decode(read)
                for message in parser.feed(text) if text else ():  # no text would tell it of the end
                    self.process_message(message)
            for message in parser.tick():
                self.process_message(message)


class Told(Event):
    """An event that a file tells of, too."""

    def __init__(self) -> None:
        super().__init__()
        self.fileno, self._end = os.pipe()

    def set(self) -> None:
        """Tell whoever waits for it."""
        super().set()
        os.write(self._end, b"\0")

    def clear(self) -> None:
        """Begin anew."""
        os.read(self.fileno, 1)
        super().clear()

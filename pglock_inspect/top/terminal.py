"""What the terminal is: whether there is one to draw on, and whether it is light."""

from __future__ import annotations

import os
import re
import select
import signal
import sys
import termios
import time
import tty
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ASK_BACKGROUND = b"\x1b]11;?\x1b\\"
_ASK_WHO = b"\x1b[c"  # every terminal answers this one, so nobody waits for those that ignore the other
_BACKGROUND = re.compile(rb"\]11;rgba?:([0-9a-f]+)/([0-9a-f]+)/([0-9a-f]+)", re.IGNORECASE)
_WHO = re.compile(rb"\x1b\[\?[\d;]*c")
_PATIENCE = 0.2
_LIGHT_ANSI = {"7", "9", "10", "11", "12", "13", "14", "15"}


def is_usable(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether keys can be read and a screen be drawn here."""
    if environ.get("TERM", "dumb") in {"", "dumb", "unknown"}:
        return False
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.__stderr__))


def on_hangup(end: Callable[[], object]) -> Callable[[], object]:
    """Call ``end`` at SIGHUP, as long as there is a terminal to give back; what is returned undoes that.

    If the terminal is gone, the program dies at once: who writes to it may wait for ever.
    """

    def hung_up(*_: object) -> None:
        try:
            termios.tcgetattr(sys.stdin.fileno())
        except (termios.error, OSError, ValueError):
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
            signal.raise_signal(signal.SIGHUP)
        else:
            end()

    before = signal.signal(signal.SIGHUP, hung_up)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, before)
    return partial(signal.signal, signal.SIGHUP, before)


def ask_background(environ: Mapping[str, str] = os.environ) -> Callable[[], bool]:
    """Ask the terminal for its background; what is returned waits for the answer: whether it is light.

    The time in between is the caller's. Keys pressed in it are lost.
    """
    keyboard, screen = sys.stdin.fileno(), sys.stdout.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    os.write(screen, _ASK_BACKGROUND + _ASK_WHO)
    deadline = time.monotonic() + _PATIENCE

    def answer() -> bool:
        heard = b""
        try:
            while not _WHO.search(heard):
                if not select.select([keyboard], [], [], max(deadline - time.monotonic(), 0))[0]:
                    break
                heard += os.read(keyboard, 1024)
        finally:
            termios.tcsetattr(keyboard, termios.TCSANOW, before)
        return is_light(heard, environ.get("COLORFGBG", ""))

    return answer


def is_light(answer: bytes, colorfgbg: str) -> bool:
    """Return whether a background is light, by the terminal's answer or else by COLORFGBG."""
    match = _BACKGROUND.search(answer)
    if match is None:
        return colorfgbg.rpartition(";")[2] in _LIGHT_ANSI
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in match.groups())
    return bool(0.2126 * red + 0.7152 * green + 0.0722 * blue > 1 / 2)  # luminance, by ITU-R BT.709

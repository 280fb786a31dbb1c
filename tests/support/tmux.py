"""A real terminal for a program, in tmux."""

from __future__ import annotations

import shlex
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.requirements import program
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

# tmux itself now and then misses that a program has ended.
_SCRIPT = """\
sh -c 'echo $$ >program.pid; exec "$@"' sh {command}
echo $? >program.exit
exec sleep 86400
"""


class Terminal:
    """One pane with one program in it."""

    def __init__(self, tmux: Sequence[str], directory: Path) -> None:
        self._tmux, self._directory = tmux, directory

    def run(self, *arguments: str) -> str:
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.run("capture-pane", "-p").split("\n")[:-1]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def painted(self) -> str:
        """The screen with its colors, as escape sequences."""
        return self.run("capture-pane", "-p", "-e")

    @property
    def pid(self) -> int:
        """The program's."""
        file = self._directory / "program.pid"
        return int(wait_until(lambda: file.exists() and file.read_text(), "the program has started"))

    def press(self, *keys: str) -> None:
        """Press keys by the names that tmux has for them; any other text is typed."""
        self.run("send-keys", *keys)

    def click(self, text: str) -> None:
        """Click on a text where it stands first, as a terminal tells a program (SGR)."""
        self.wait_for(text)
        lines = self.lines
        y = next(y for y, line in enumerate(lines) if text in line)
        place = f"\x1b[<0;{lines[y].index(text) + 1};{y + 1}"
        self.press("-l", f"{place}M{place}m")

    def resize(self, width: int, height: int) -> None:
        self.run("resize-window", "-x", str(width), "-y", str(height))

    def ask(self, what: str) -> str:
        """Return a variable of tmux, such as `pane_title`."""
        return self.run("display-message", "-p", f"#{{{what}}}").strip()

    def wait_for(self, text: str) -> None:
        """Wait until the screen shows a text."""
        try:
            wait_until(lambda: text in self.text, text, timeout=30)
        except AssertionError:
            raise AssertionError(f"{text!r} is not to be seen on\n{self.text}") from None

    def wait_for_end(self) -> int:
        """Wait until the program has ended, and return its exit code (128 + n after signal n)."""
        file = self._directory / "program.exit"
        return int(wait_until(lambda: file.exists() and file.read_text(), "the program has ended"))


@contextmanager
def terminal(
    command: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    *,
    size: tuple[int, int] = (80, 24),
) -> Iterator[Terminal]:
    """Run a command in a terminal of its own, in `directory`; skip the test where there is no tmux."""
    here = Terminal(
        [program("tmux"), "-u", "-f", "/dev/null", "-S", str(directory / "tmux.socket")], directory
    )
    variables = [f"{name}={value}" for name, value in environment.items()]
    script = directory / "program.sh"
    script.write_text(_SCRIPT.format(command=shlex.join(["env", "-i", *variables, *command])))
    width, height = map(str, size)
    here.run(
        *("new-session", "-d", "-x", width, "-y", height, "-c", str(directory)),
        f"exec sh {shlex.quote(str(script))}",
    )
    try:
        yield here
    finally:
        here.run("kill-server")

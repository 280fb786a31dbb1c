from __future__ import annotations

import pytest

from pglock_inspect.top.terminal import is_light, is_usable


@pytest.mark.parametrize(
    ("answer", "colorfgbg", "light"),
    [
        (b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[?62;22c", "", True),
        (b"\x1b]11;rgb:00/00/00\x07", "0;15", False),
        (b"\x1b]11;rgb:fd/f6/e3\x07", "", True),
        (b"\x1b]11;rgba:0000/2b2b/3636/ffff\x07", "", False),
        (b"\x1b[?62;22c", "0;15", True),
        (b"\x1b[?62;22c", "15;0", False),
        (b"", "0;default;15", True),
        (b"", "", False),
    ],
)
def test_light_by_the_terminals_word_else_by_colorfgbg(answer: bytes, colorfgbg: str, *, light: bool) -> None:
    assert is_light(answer, colorfgbg) is light


@pytest.mark.parametrize("environ", [{}, {"TERM": ""}, {"TERM": "dumb"}, {"TERM": "xterm"}])
def test_a_pipe_or_a_dumb_terminal_is_not_usable(environ: dict[str, str]) -> None:
    assert not is_usable(environ)

from __future__ import annotations

import pytest

from pglock_inspect.present.glyphs import ASCII, UNICODE
from pglock_inspect.top.terminal import is_light, is_usable, look_of


@pytest.mark.parametrize(
    ("encoding", "environ"),
    [
        ("iso-8859-1", {"LANG": "de_DE.ISO-8859-1"}),
        ("ascii", {}),
        ("utf-8", {"LC_ALL": "C"}),
        ("utf-8", {"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}),
        ("utf-8", {"LANG": "C", "LC_CTYPE": "C.UTF-8"}),  # what Python makes of LANG=C
        ("utf-8", {"LANG": "de_DE.ISO-8859-15"}),  # a locale that is not installed
        ("utf-8", {"LC_CTYPE": "en_US.ISO-8859-1", "LANG": "en_US.UTF-8"}),
    ],
)
def test_ascii_where_the_locale_asks(encoding: str, environ: dict[str, str]) -> None:
    assert look_of(encoding, environ).glyphs is ASCII


@pytest.mark.parametrize(
    "environ",
    [
        {"LANG": "en_US.UTF-8"},
        {"LANG": "de_DE.utf8"},
        {"LC_ALL": "C.UTF-8"},
        {"LC_CTYPE": "C.UTF-8"},  # what Python makes of nothing, as in a container
        {"LANG": "en_US.UTF-8", "LC_CTYPE": "C.UTF-8"},
        {"LANG": "en_US"},
        {},
    ],
)
def test_unicode_elsewhere(environ: dict[str, str]) -> None:
    assert look_of("UTF-8", environ).glyphs is UNICODE


def test_text_fits_the_encoding() -> None:
    assert look_of("latin-1", {}).text("é \u4e2d \x1b") == r"é ? \x1b"


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

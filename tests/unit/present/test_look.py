from __future__ import annotations

import pytest

from pglock_inspect.present.glyphs import ASCII, UNICODE
from pglock_inspect.present.look import look_of


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

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, strategies as st

from pglock_inspect.present.cells import cut, pad, width, wrap
from pglock_inspect.present.text import ELLIPSIS, one_line, printable, well_formed

ANY_TEXT = st.text(st.characters())
HOSTILE = "a\x1b[31m\u202e\u2066\n\r\t\0\x7f\x9b\u200b\u2028\ufeff\u3164\ufe0f\U000e0041\udc80\ud800"


def invisible(text: str) -> list[str]:
    return [
        character for character in text if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    ]


@given(ANY_TEXT)
@example(HOSTILE)
def test_what_is_printed_holds_no_control_character(text: str) -> None:
    assert not invisible(printable(text))
    assert not invisible(one_line(text))
    assert printable(text).isprintable()


@given(st.text(st.characters(categories=["L", "N", "P", "S"], exclude_characters="\u3164\u115f\u1160\uffa0")))
def test_letters_and_signs_stay_as_they_are(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("two\nlines\r\n", r"two\nlines\r\n"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("a\u200bb", r"a\u200bb"),
        ("job\u3164", r"job\u3164"),
        ("\U000e0041", r"\U000e0041"),
        ("caf\udcc3\udca9", r"caf\xc3\xa9"),
        ("\ud83d", r"\ud83d"),
        ("[bold red]job[/]", "[bold red]job[/]"),
        ("日本語 été 🎉", "日本語 été 🎉"),
    ],
)
def test_escapes(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_only_the_start_of_a_long_text_is_looked_at() -> None:
    assert printable("x" * 1_000_000, 3) == "xxx…"
    assert one_line("SELECT\n\t 1" + " " * 1_000_000, 20) == "SELECT 1…"


@given(ANY_TEXT)
def test_well_formed_text_can_be_encoded(text: str) -> None:
    well_formed(text).encode("utf-8")


@given(st.text().map(printable), st.integers(0, 30))
def test_a_cut_text_fits(text: str, cells: int) -> None:
    assert width(cut(text, cells, ELLIPSIS)) <= cells
    assert cut(text, cells, ELLIPSIS) == text or width(text) > cells


@given(st.text().map(printable), st.integers(2, 30))
def test_wrapped_lines_fit_and_lose_nothing(text: str, cells: int) -> None:
    lines = list(wrap(text, cells))
    assert all(width(line) <= cells for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_padding_counts_cells() -> None:
    assert pad("日本", 6) == "日本  "
    assert pad("12", 4, right=True) == "  12"


def test_a_number_stays_with_its_unit() -> None:
    assert list(wrap("idle for 9.1 s, of 10 min", 11)) == ["idle for", "9.1 s, of", "10 min"]
    assert list(wrap("has 7 schemes, 1 day", 5)) == ["has 7", "schem", "es, 1", "day"]

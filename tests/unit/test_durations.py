from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.durations import format_duration, parse_duration
from pglock_inspect.errors import InvalidDuration, PglockInspectError

CENTURY = 100 * 365 * 86_400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("90s", 90),
        ("15m", 900),
        ("15min", 900),
        ("1h30m", 5400),
        ("1d", 86_400),
        ("2w", 14 * 86_400),
        (" 2 d 3 h ", 183_600),
        ("1m1ms", 60.001),
        ("1h1h", 7200),
    ],
)
def test_reads(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["10", " 0 ", "1.5"])
def test_a_number_without_a_unit_is_refused(text: str) -> None:
    with pytest.raises(InvalidDuration) as caught:
        parse_duration(text)
    assert str(caught.value) == f"{text!r} has no unit: write 10s for seconds or 10m for minutes"


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "-5m", "+5m", "1y", "10mm", "1us", "1e3s", ".5s", "5.s", "1..2s", "1.2.3s", "nan", "inf"),
        *("m", "5 m s", "10 M", "1h@30m", "1h,30m", "1h-30m", "ten minutes", "٣s", "5m\0", "5m\x1b[31m"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidDuration) as caught:
        parse_duration(text)
    assert str(caught.value) == (
        f"{text!r} is no duration: write numbers with units (ms, s, m, h, d, w), as 90s or 1h30m"
    )


@pytest.mark.parametrize("text", ["1000000000d", "9" * 400 + "s", "9" * 5000 + "d", "0s" + "999999999d" * 2])
def test_more_than_a_duration_can_be_is_refused(text: str) -> None:
    with pytest.raises(InvalidDuration, match=r"^'.{,40}' is out of range: write at most 999999999d$"):
        parse_duration(text)


@given(st.text() | st.from_regex(r"[+-]?[0-9.]{0,400}[a-zµ]{0,3}( ?[0-9.]{1,3}[mshd])?", fullmatch=True))
def test_no_text_causes_another_error(text: str) -> None:
    outcome = seconds_or_refusal(text)
    assert outcome.isprintable() if isinstance(outcome, str) else 0 <= outcome < math.inf


def seconds_or_refusal(text: str) -> float | str:
    try:
        return parse_duration(text)
    except PglockInspectError as error:
        return str(error)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1e-9, "0 s"),
        (-1e-9, "0 s"),
        (0.0021, "2.1 ms"),
        (0.85, "850 ms"),
        (0.999999, "999 ms"),
        (1, "1 s"),
        (1.001, "1 s"),
        (1.4, "1.4 s"),
        (9.99, "9.9 s"),
        (10.9, "10 s"),
        (59.999, "59 s"),
        (60, "1 min"),
        (330, "5 min 30 s"),
        (42 * 60 + 59, "42 min"),
        (3600, "1 h"),
        (3 * 3600 + 2 * 60 + 1, "3 h 2 min"),
        (86_400 - 1, "23 h 59 min"),
        (2 * 86_400 + 3 * 3600, "2 d 3 h"),
        (400 * 86_400, "400 d"),
        (-1.4, "-1.4 s"),
        (-0.0004, "-0.4 ms"),
    ],
)
def test_writes(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.floats(0, CENTURY))
def test_what_it_writes_is_what_it_reads_but_for_what_it_cuts_off(seconds: float) -> None:
    read = parse_duration(format_duration(seconds))
    assert read <= seconds + 1e-6
    assert seconds - read < max(0.0001, 0.1 * seconds)


@given(st.floats(0, CENTURY), st.floats(0, CENTURY))
def test_a_longer_duration_never_reads_shorter(one: float, other: float) -> None:
    shorter, longer = sorted((one, other))
    assert parse_duration(format_duration(shorter)) <= parse_duration(format_duration(longer))


@given(
    st.integers(0, 10**9), st.sampled_from([("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600), ("d", 86_400)])
)
def test_whole_numbers_of_a_unit_are_exact(number: int, unit: tuple[str, float]) -> None:
    name, size = unit
    if number * size <= 999_999_999 * 86_400:
        assert parse_duration(f"{number}{name}") == pytest.approx(number * size, rel=1e-12)

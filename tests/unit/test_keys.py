from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.errors import InvalidKey
from pglock_inspect.keys import AdvisoryKey, Form, Value

INT4 = st.integers(-(1 << 31), (1 << 31) - 1)
BIGINT = st.integers(-(1 << 63), (1 << 63) - 1)
VALUE = st.one_of(BIGINT, st.tuples(INT4, INT4))
UINT4 = st.integers(0, (1 << 32) - 1)


@pytest.mark.parametrize(
    ("value", "fields", "form"),
    [
        (0, (0, 0, 1), "bigint"),
        (-1, (4294967295, 4294967295, 1), "bigint"),
        (-1957215242, (4294967295, 2337752054, 1), "bigint"),
        (2337752054, (0, 2337752054, 1), "bigint"),
        ((1 << 63) - 1, (2147483647, 4294967295, 1), "bigint"),
        (-(1 << 63), (2147483648, 0, 1), "bigint"),
        ((42, 7), (42, 7, 2), "pair"),
        ((-1, -(1 << 31)), (4294967295, 2147483648, 2), "pair"),
    ],
)
def test_a_value_and_its_fields(value: Value, fields: tuple[int, int, int], form: Form) -> None:
    key = AdvisoryKey.from_value(value)
    assert key == fields
    assert key.form == form
    assert key.value == value


@given(VALUE)
def test_a_value_comes_back_from_its_fields(value: Value) -> None:
    assert AdvisoryKey.from_pg_locks(*AdvisoryKey.from_value(value)).value == value


@given(UINT4, UINT4, st.sampled_from([1, 2]))
def test_fields_come_back_from_their_value(classid: int, objid: int, objsubid: int) -> None:
    key = AdvisoryKey.from_pg_locks(classid, objid, objsubid)
    assert key.value is not None
    assert AdvisoryKey.from_value(key.value) == key


@given(UINT4, UINT4, st.integers(0, 65535))
def test_what_is_printed_can_be_pasted(classid: int, objid: int, objsubid: int) -> None:
    key = AdvisoryKey.from_pg_locks(classid, objid, objsubid)
    assert AdvisoryKey.parse(str(key)) == key
    assert AdvisoryKey.parse(f"{classid}/{objid}/{objsubid}") == key
    if key.sql_arguments is not None:
        assert AdvisoryKey.parse(key.sql_arguments) == key


def test_an_extensions_key_has_neither_value_nor_sql() -> None:
    key = AdvisoryKey.from_pg_locks(1000, 0, 29749)
    assert (key.form, key.value, key.sql_arguments, str(key)) == ("extension", None, None, "1000/0/29749")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("-1957215242", AdvisoryKey(4294967295, 2337752054, 1)),
        (" +42 ", AdvisoryKey(0, 42, 1)),
        ("(42, -7)", AdvisoryKey(42, 4294967289, 2)),
        ("[42,7]", AdvisoryKey(42, 7, 2)),
        ("4294967295/2337752054/1", AdvisoryKey(4294967295, 2337752054, 1)),
        ("0 / 102008 / 5", AdvisoryKey(0, 102008, 5)),
    ],
)
def test_people_paste_keys_in_many_forms(text: str, key: AdvisoryKey) -> None:
    assert AdvisoryKey.parse(text) == key


NO_KEY = "is no key: write N (a bigint), A,B (two int4) or classid/objid/objsubid"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"'' {NO_KEY}"),
        ("send_daily_digest", f"'send_daily_digest' {NO_KEY}"),
        ("1/2", f"'1/2' {NO_KEY}"),
        ("1,2,3", f"'1,2,3' {NO_KEY}"),
        ("1,2/3", f"'1,2/3' {NO_KEY}"),
        ("٤٢", f"'٤٢' {NO_KEY}"),
        ("1\x1b[2J", rf"'1\x1b[2J' {NO_KEY}"),
        ("9" * 5000, f"'999999999999...9999999999999' {NO_KEY}"),
        ("9223372036854775808", "9223372036854775808 does not fit a bigint (-2^63 to 2^63-1)"),
        ("-9223372036854775809", "-9223372036854775809 does not fit a bigint (-2^63 to 2^63-1)"),
        ("1,2147483648", "2147483648 does not fit an int4 (-2^31 to 2^31-1)"),
        ("-2147483649,1", "-2147483649 does not fit an int4 (-2^31 to 2^31-1)"),
        ("4294967296/0/1", "classid 4294967296 is not an unsigned 32-bit number, as pg_locks shows it"),
        ("0/-1/1", "objid -1 is not an unsigned 32-bit number, as pg_locks shows it"),
        ("0/0/65536", "objsubid 65536 is not an unsigned 16-bit number, as pg_locks shows it"),
    ],
)
def test_what_is_no_key_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(InvalidKey) as refused:
        AdvisoryKey.parse(text)
    assert str(refused.value) == message


@given(st.text())
def test_any_text_is_a_key_or_refused(text: str) -> None:
    try:
        key = AdvisoryKey.parse(text)
    except InvalidKey:
        return
    assert AdvisoryKey.parse(str(key)) == key

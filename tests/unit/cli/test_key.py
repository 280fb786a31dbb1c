from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pglock_inspect.cli.app import run
from pglock_inspect.schemes import SCHEMES, key_of

if TYPE_CHECKING:
    import pytest


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["key", *arguments]) == code
    return capsys.readouterr().out


def parsed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    return json.loads(shown(capsys, *arguments, "--format", "json"))  # type: ignore[no-any-return]


def test_a_name_under_one_scheme(capsys: pytest.CaptureFixture[str]) -> None:
    name, heading, row = shown(capsys, "send_daily_digest", "--scheme", "hashtext").splitlines()
    assert name == "send_daily_digest"
    assert heading == "  SCHEME            KEY     CLASSID       OBJID  OBJSUBID  TAKE IT"
    assert row.startswith(
        "  hashtext  -1957215242  4294967295  2337752054         1  SELECT pg_try_advisory_lock("
    )


def test_a_name_under_every_scheme_that_has_a_key_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    keys = parsed(capsys, "-42")
    assert {key["scheme"] for key in keys} == SCHEMES.keys() - {"hashtext-pair", "erlang-phash2"}
    for key in keys:
        assert (key["classid"], key["objid"], key["objsubid"]) == key_of("-42", key["scheme"])


def test_the_schemes_without_a_key_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    schemes = {key["scheme"] for key in parsed(capsys, "send_daily_digest")}
    assert not schemes & {"int", "dotnet-ascii"}


def test_json_says_what_a_double_would_round(capsys: pytest.CaptureFixture[str]) -> None:
    (key,) = parsed(capsys, "send_daily_digest", "--scheme", "sha256-64-le")
    assert key["value_text"] == str(key["value"]) == "-3016094728319601989"
    assert key["sql"] == "SELECT pg_try_advisory_lock(-3016094728319601989)"


def test_several_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert [key["name"] for key in parsed(capsys, "a", "b", "--scheme", "hashtext")] == ["a", "b"]
    assert shown(capsys, "a", "b").count("TAKE IT") == 2


def test_a_quote_cannot_end_the_literal(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "it's \\", "--scheme", "hashtext")
    assert text.endswith("(hashtext(E'it''s \\\\'))\n")


def test_hostile_names_show_inert(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "\x1b[2J\u202e\nname")
    assert all(line.isprintable() for line in text.splitlines())


def test_what_is_computed_says_for_which_server(capsys: pytest.CaptureFixture[str]) -> None:
    run(["key", "x"])
    assert "computed as a little-endian server with UTF-8 does" in capsys.readouterr().err
    run(["key", "x", "--scheme", "crc32-signed"])
    assert capsys.readouterr().err == ""


def test_a_chosen_scheme_without_a_key_for_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "ten letters", "--scheme", "dotnet-ascii"]) == 3
    assert "scheme dotnet-ascii has no key for the name 'ten letters'" in capsys.readouterr().err


def test_a_name_that_no_scheme_has_a_key_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["key", "send_daily_digest", "caf\udce9"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "pglock-inspect: no scheme has a key for the name 'caf\\udce9': write it in UTF-8\n"

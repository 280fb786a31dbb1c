from __future__ import annotations

import json

import pytest

from pglock_inspect.doctor import Check
from pglock_inspect.errors import FailureReason, ServerFailure
from pglock_inspect.present.cells import width
from pglock_inspect.present.checkup import CheckUp, as_json, as_text
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.present.paper import Paper
from pglock_inspect.present.verdict import Status

GOOD = Check("version", "ok", "PostgreSQL 18.6")
WARNING = Check("dead-client", "warning", "its lock lives up to 2 h 11 min, which is long", "SELECT 1; " * 20)
FAILURE = Check(
    "self-test", "failure", "two sessions got the same lock\x1b[2J: it excludes nobody", "go away"
)
CHECKUP = CheckUp("localhost:5432", (GOOD, WARNING, FAILURE))


def test_each_check_is_a_line_with_what_to_do_below() -> None:
    assert as_text([CHECKUP], Paper()).splitlines() == [
        "localhost:5432",
        "  ok       version      PostgreSQL 18.6",
        "▲ warning  dead-client  its lock lives up to 2 h 11 min, which is long",
        f"                        do: {'SELECT 1; ' * 20}".rstrip(),
        r"✗ failure  self-test    two sessions got the same lock\x1b[2J: it excludes nobody",
        "                        do: go away",
    ]


@pytest.mark.parametrize("cells", [30, 40, 54, 60, 80])
def test_it_fits_its_paper_but_for_what_is_there_to_be_copied(cells: int) -> None:
    lines = as_text([CHECKUP], Paper(width=cells)).splitlines()
    assert all(width(line) <= cells for line in lines if "do: " not in line)
    assert [line for line in lines if "SELECT 1; SELECT 1; " in line]
    words = " ".join(" ".join(lines).split())
    assert "its lock lives up to 2 h 11 min, which is long do: SELECT 1;" in words


def test_color_and_signs_follow_the_paper() -> None:
    colored = as_text([CHECKUP], Paper(color=True))
    assert "\x1b[32m  ok       \x1b[0m" in colored
    assert "\x1b[1;31m✗ failure  \x1b[0m" in colored
    assert "\x1b[2J" not in colored
    plain = as_text([CHECKUP], Paper(Look(ASCII, "ascii")))
    assert plain.isascii()
    assert "! warning" in plain


def test_the_worst_check_is_the_status() -> None:
    assert CheckUp("t", (GOOD,)).status is Status.OK
    assert CheckUp("t", (GOOD, WARNING)).status is Status.WARNING
    assert CHECKUP.status is Status.CRITICAL


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("connect", "UNKNOWN"),
        ("timeout", "UNKNOWN"),
        ("login_hangs", "CRITICAL"),
        ("lock_table_full", "CRITICAL"),
    ],
)
def test_a_server_that_lets_nobody_in_is_critical_and_one_that_is_away_unknown(
    reason: FailureReason, status: str
) -> None:
    away = CheckUp("there", failure=ServerFailure("cannot connect: no\x1b", reason))
    document = json.loads(as_json([away]))
    assert (document["status"], document["checks"]) == (status, [])
    assert document["error"] == "cannot connect: no\x1b"
    assert as_text([away], Paper()).splitlines() == ["there", r"  cannot connect: no\x1b"]


def test_json_is_a_document_or_an_array_of_them() -> None:
    one = json.loads(as_json([CHECKUP]))
    assert one["checks"][0] == {"check": "version", "grade": "ok", "value": "PostgreSQL 18.6", "fix": None}
    assert one["exit_code"] == 2
    assert json.loads(as_json([CHECKUP, CHECKUP])) == [one, one]
    assert "\x1b" not in as_json([CHECKUP])

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.model import Held, Name
from pglock_inspect.present import table
from pglock_inspect.present.cells import width
from pglock_inspect.present.columns import BLOCKED_BY, EVIDENCE, held_text
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.present.paper import Paper
from tests.support.any_reports import failures, reports
from tests.support.reports import HOLDER, PREPARED, SESSION, STALE, UNREACHABLE, WAITER, make_report

if TYPE_CHECKING:
    from pglock_inspect.model import Evidence, Report

REPORT = make_report(WAITER, PREPARED, HOLDER, findings=(STALE,))


def test_forty_columns() -> None:
    assert table.once([REPORT], Paper(width=40)).splitlines() == [
        "localhost:5432  app  PostgreSQL 18.6",
        "  2026-11-30 02:00:00 UTC  2 held, 1",
        "  waiting",
        "",
        "   JOB                STATE          FOR",
        "✗  send_daily_digest  held      ≥ 42 min",
        "   send_daily_digest  waiting     12 min",
        "   7,-42              prepared   ≥ 5 min",
        "",
        "✗ CRITICAL  send_daily_digest is",
        "  stale: pid 4711 (app, worker-3) has",
        "  held it for 42 min, allowed are 10 min",
        "  do: pglock-inspect kill 4711 --terminate",
    ]


def test_a_long_name_gives_room_to_state_and_age() -> None:
    lock = replace(HOLDER, name=Name("send_daily_digest_to_all_subscribers", "config"))
    lines = table.once([make_report(lock, WAITER)], Paper(width=40)).splitlines()
    assert lines[4:] == [
        "   JOB                 STATE         FOR",
        "✗  send_daily_digest…  held     ≥ 42 min",
        "   send_daily_digest   waiting    12 min",
    ]


def test_eighty_columns() -> None:
    lines = table.once([REPORT], Paper(width=80)).splitlines()
    assert lines[3:7] == [
        "   JOB                STATE          FOR  OF MAX          WAIT   PID  BLOCKED BY",
        "✗  send_daily_digest  held      ≥ 42 min  ━━━━━━▶ 10 min     1  4711  –",  # noqa: RUF001
        "   send_daily_digest  waiting     12 min                     –  4720  4711",  # noqa: RUF001
        "   7,-42              prepared   ≥ 5 min  ━───────── 1 h     –     –  –",  # noqa: RUF001
    ]


def test_who_only_queues_shows_behind_whom() -> None:
    queued = replace(WAITER, blocked_by=(), queued_behind=(4720, 4733))
    assert BLOCKED_BY.cell(queued, 24, Look()) == [("behind 4720, 4733", "info")]
    blocked = replace(queued, blocked_by=(4711,))
    assert BLOCKED_BY.cell(blocked, 24, Look()) == [("4711", "info")]


def test_endless_lines_show_everything() -> None:
    heading, *rows = table.once([REPORT], Paper()).splitlines()[2:6]
    for column in ("USER", "APPLICATION", "CLIENT", "DATABASE", "KEY", "MODE", "EVIDENCE", "QUERY"):
        assert column in heading
    assert (
        "worker-3     10.0.0.7:51234  app       -1957215242  exclusive           session state  COMMIT"
        in rows[0]
    )
    assert "SELECT pg_advisory_lock(hashtext('send_daily_digest'))" in rows[1]
    assert "shared transaction  prepared       PREPARE TRANSACTION 'transfer-17'" in rows[2]


def test_ascii_is_enough() -> None:
    text = table.once([REPORT], Paper(Look(ASCII, "ascii"), width=100))
    assert text.isascii()
    assert "X  send_daily_digest  held      > 42 min  #########" in text


def test_a_name_that_the_encoding_lacks_does_not_fail() -> None:
    lock = replace(HOLDER, name=Name("отчёт", "config"))
    assert "?????" in table.once([make_report(lock)], Paper(Look(ASCII, "latin-1"), width=80))


def test_color_only_where_it_is_wanted() -> None:
    assert "\x1b[1;31msend_daily_digest\x1b[0m" in table.once([REPORT], Paper(color=True))
    assert "\x1b" not in table.once([REPORT], Paper())


def test_the_worst_comes_first_and_waiters_below_those_they_wait_for() -> None:
    other = replace(HOLDER, key=PREPARED.key, severity="warning", pid=1)
    info = replace(HOLDER, key=HOLDER.key._replace(objid=1), severity="info", pid=2)
    long_wait = replace(WAITER, waited_seconds=800.0)
    assert table.arrange([WAITER, info, other, long_wait, HOLDER]) == [HOLDER, long_wait, WAITER, other, info]


def test_no_locks() -> None:
    text = table.once([make_report()], Paper())
    assert text == "localhost:5432  app  PostgreSQL 18.6  2026-11-30 02:00:00 UTC  0 held, 0 waiting"


def test_a_server_that_cannot_be_read_says_so_in_its_place() -> None:
    text = table.once([make_report(), UNREACHABLE], Paper())
    assert text.splitlines()[-1] == f"db.example.org:5432  2026-11-30 02:00:00 UTC  {UNREACHABLE.error}"


def test_watching_wipes_a_terminal_and_nothing_else() -> None:
    polls = [[make_report()]] * 2
    assert all(chunk.startswith("\x1b[H\x1b[2J") for chunk in table.stream(polls, Paper(clears=True)))
    assert "\x1b" not in "".join(table.stream(polls, Paper()))


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        (Held(2_520.0, None, 2_521.0, "stamp"), "42 min"),
        (Held(600.0, 600.0, 7_200.0, "session_state"), "≥ 10 min"),
        (Held(600.0, 600.0, None, "prepared"), "≥ 10 min"),
        (Held(600.0, None, 600.0, "transaction"), "≤ 10 min"),
        (Held(600.0, None, 7_200.0, "statement"), "~ 10 min"),
        (Held(600.0, None, 602.0, "observed"), "~ 10 min"),
        (Held(None, None, 10_800.0, "none"), "< 3 h"),
        (Held(None, None, None, "none"), "?"),
    ],
)
def test_an_age_says_how_sure_it_is(held: Held, shown: str) -> None:
    assert held_text(held, Look()) == shown


@pytest.mark.parametrize("evidence", ["none", "observed"])
def test_an_unknown_age_is_never_blank_or_zero(evidence: Evidence) -> None:
    lock = replace(HOLDER, held=Held(None, None, None, evidence))
    waiter = replace(WAITER, waited_seconds=None)
    _, first, second = table.once([make_report(lock, waiter)], Paper(width=40)).splitlines()[-3:]
    assert first.split()[3] == second.split()[2] == "?"


def test_no_evidence_is_told_where_there_is_none() -> None:
    unknown = replace(HOLDER, held=Held(None, None, None, "none"))
    at_most = replace(HOLDER, held=Held(None, None, 10_800.0, "none"))
    assert EVIDENCE.cell(unknown, 13, Look()) == [("–", "quiet")]  # noqa: RUF001
    assert EVIDENCE.cell(at_most, 13, Look()) == [("connected", "quiet")]


def test_a_query_of_a_megabyte_takes_one_line() -> None:
    lock = replace(HOLDER, session=replace(SESSION, query="SELECT\n\t'\x1b[31m" + "x" * 1_000_000))
    line = table.once([make_report(lock)], Paper(width=200)).splitlines()[-1]
    assert r"SELECT '\x1b[31mxxx" in line
    assert width(line) <= 200


@given(st.one_of(reports(), failures()), st.integers(20, 200))
def test_any_report_fits_its_paper_and_is_inert(report: Report, cells: int) -> None:
    lines = table.once([report], Paper(width=cells)).split("\n")
    assert all(line.isprintable() for line in lines)
    assert all(width(line) <= cells for line in lines if not line.startswith("  do: "))
    assert table.once([report], Paper(Look(ASCII, "ascii"), width=cells)).isascii()


def test_a_job_without_a_visible_name_has_no_room_to_give() -> None:
    lock = replace(WAITER, name=Name("", "config"), waited_seconds=1e9, severity="critical")
    assert "waiting" in table.once([make_report(lock)], Paper(width=20))

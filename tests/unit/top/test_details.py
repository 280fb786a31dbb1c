from __future__ import annotations

from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Finding, Held, HoldGroup, LockRows, Name, Sighting
from pglock_inspect.present.cells import width
from pglock_inspect.present.evidence import findings_of
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.top.details import describe
from pglock_inspect.top.past import Hold
from pglock_inspect.top.sections import Entry, Section, lines_of
from pglock_inspect.top.view import Sight
from tests.support.any_reports import reports
from tests.support.reports import HOLDER, NOW, PREPARED, SESSION, STALE, WAITER, ago, make_report

LOOK = Look()
REPORT = make_report(HOLDER, WAITER, PREPARED, findings=(STALE,))
NO_PG_MONITOR = Finding(
    "no-pg-monitor", "info", "this role sees little", "1 of 9 sessions", "GRANT pg_monitor"
)


def told(sections: list[Section]) -> dict[str, dict[str, str]]:
    return {section.title: {entry.label: entry.text for entry in section.entries} for section in sections}


def test_of_a_holder() -> None:
    assert told(describe(HOLDER, Sight(REPORT), LOOK)) == {
        "Why": {
            "": "(pg_cancel_backend would change nothing: the holder is idle)",
            "held by": "pid 4711, user app, worker-3 at 10.0.0.7:51234, idle for 42 min.",
            "last ran": "COMMIT",
            "waiting": "1 session: pid 4720 (12 min).",
            "do": "pglock-inspect kill 4711 --terminate",
        },
        "Findings": {"✗": STALE.summary, "": STALE.evidence},
        "Held": {
            "for": "≥ 42 min",
            "proven": "at least 42 min, at most 3 h 2 min",
            "known how": "the session has run nothing since 01:18:00 UTC",
            "limit": "10 min, held 4.2 times as long",
        },
        "Waiters": {"pid 4720": "for 12 min, worker-1"},
        "Blocking": {
            "4711": "worker-3, waits for nobody: the root",
            "└─ 4720": "worker-1, waits for 12 min to get send_daily_digest",
        },
        "Key": {
            "name": "send_daily_digest",
            "named by": "the configuration by hashtext",
            "bigint": "-1957215242",
            "pg_locks": "classid 4294967295, objid 2337752054, objsubid 1",
            "database": "app",
            "mode": "ExclusiveLock",
            "scope": "not known: PostgreSQL does not tell",
        },
        "Session": {
            "pid": "4711",
            "user": "app",
            "application": "worker-3",
            "client": "10.0.0.7:51234",
            "state": "idle",
            "waits for": "Client/ClientRead",
            "state since": "42 min ago (2026-11-30 01:18:00 UTC)",
            "statement": "42 min ago (2026-11-30 01:17:59 UTC)",
            "connected": "3 h 2 min ago (2026-11-29 22:58:00 UTC)",
        },
        "Last statement": {"": "COMMIT"},
    }


def test_the_account_begins_with_what_is_wrong() -> None:
    why, *_ = describe(HOLDER, Sight(REPORT), LOOK)
    assert why.entries[0] == Entry(
        "", "send_daily_digest in database app is STALE: held 42 min, allowed 10 min.", "critical"
    )


def test_the_last_statement_is_colored() -> None:
    query = "SELECT pg_advisory_lock(42), 'a b' -- why"
    lock = replace(HOLDER, session=replace(SESSION, query=query))
    [statement] = [s for s in describe(lock, Sight(REPORT), LOOK) if s.title == "Last statement"]
    spans = dict(statement.entries[0].spans)
    assert "".join(text for text, _ in statement.entries[0].spans) == query
    assert (spans["SELECT"], spans["42"], spans["-- why"]) == ("strong", "good", "quiet")
    lines = lines_of([statement], 20)
    assert [span for span in lines[1] if span[0] == "SELECT"] == [("SELECT", "strong")]
    assert all(width("".join(text for text, _ in line)) <= 20 for line in lines)


def test_recent_holds_stand_on_a_line_of_time() -> None:
    past = (
        Hold(replace(HOLDER, pid=7), ago(60)),
        Hold(replace(HOLDER, pid=8, held=None), ago(120), ago(90)),
        Hold(PREPARED, ago(50)),
    )
    [recent] = [s for s in describe(HOLDER, Sight(REPORT, past=past), LOOK) if s.title == "Recent holds"]
    line, running, ended = recent.entries
    assert (line.label, line.text) == ("2 min ago", "━" * 10 + "─" * 8 + "━" * 18)
    assert (running.label, running.text) == ("01:59:00", "taken by pid 7 (worker-3), held for ~ 42 min")
    assert (ended.label, ended.text) == ("01:58:30", "released by pid 8 (worker-3), held for ~ 30 s")


def test_of_a_waiter() -> None:
    sections = told(describe(replace(WAITER, queued_behind=(4719, "gid-1")), Sight(REPORT), LOOK))
    assert sections["Waiting"] == {
        "for": "12 min",
        "blocked by": "pid 4711",
        "behind": "pid 4719, prepared transaction gid-1",
    }
    assert "Waiters" not in sections


def test_of_a_prepared_transaction_whose_key_has_no_name() -> None:
    sections = told(describe(PREPARED, Sight(REPORT), LOOK))
    assert sections["Prepared transaction"] == {
        "gid": "transfer-17",
        "prepared": "5 min ago (2026-11-30 01:55:00 UTC)",
        "owner": "billing",
    }
    assert sections["Key"] == {
        "pair": "7, -42",
        "pg_locks": "classid 7, objid 4294967254, objsubid 2",
        "database": "app",
        "mode": "ShareLock",
        "scope": "transaction-level",
    }
    assert "Session" not in sections


def test_what_is_not_known_is_not_made_up() -> None:
    lock = replace(
        HOLDER,
        held=Held(None, None, None, "none"),
        max_held=None,
        key=AdvisoryKey(1, 2, 3),
        name=Name("leader", "known", product="Patroni", maybe=True),
        session=None,
    )
    sections = told(describe(lock, Sight(make_report(lock)), LOOK))
    assert sections["Held"] == {
        "for": "?",
        "known how": "nothing tells since when",
        "limit": "none",
    }
    assert sections["Key"]["name"] == "leader?"
    assert sections["Key"]["named by"] == "perhaps, the list of known software"
    assert sections["Key"]["product"] == "Patroni"
    assert "extension" not in sections["Key"]


def test_many_waiters_are_counted_beyond_fifty_and_the_longest_come_first() -> None:
    waiters = [replace(WAITER, pid=pid, waited_seconds=float(pid)) for pid in range(1, 61)]
    entries = describe(replace(HOLDER, waiters=60), Sight(make_report(HOLDER, *waiters)), LOOK)[2].entries
    assert [entries[0].label, entries[49].label, entries[50].text] == ["pid 60", "pid 11", "and 10 more"]


def test_findings_about_no_single_lock_are_told_too() -> None:
    report = make_report(HOLDER, findings=(NO_PG_MONITOR,))
    assert told(describe(HOLDER, Sight(report), LOOK))["Server"]["•"] == "this role sees little"


def test_findings_belong_to_the_lock_that_they_are_about() -> None:
    other = replace(HOLDER, pid=1)
    info = replace(STALE, rule="leaked", severity="info")
    report = make_report(HOLDER, other, findings=(info, STALE))
    both = replace(HOLDER, findings=("leaked", "stale"))
    assert findings_of(both, report) == [STALE, info]
    assert findings_of(other, report) == []


def test_findings_about_groups_of_locks_belong_to_each_of_them() -> None:
    packed = HOLDER.key.classid << 32 | HOLDER.key.objid
    rows = LockRows(4711, "3/7", 5, 1, "ExclusiveLock", granted=True, keys=frozenset({packed}))
    group = HoldGroup(rows, rows.keys, (), Sighting(NOW, 0), session=SESSION)
    finding = replace(STALE, key=None, pid=None, about=((group, rows.keys),))
    report = make_report(HOLDER, findings=(finding,))
    assert findings_of(HOLDER, report) == [finding]
    assert findings_of(replace(HOLDER, mode="ShareLock"), report) == []
    assert findings_of(replace(HOLDER, pid=1), report) == []
    assert findings_of(replace(HOLDER, key=AdvisoryKey(0, 1, 1)), report) == []


@given(reports(), st.integers(10, 400), st.sampled_from([LOOK, Look(ASCII, "ascii")]))
def test_any_lock_fits_any_width_and_encoding(report: object, cells: int, look: Look) -> None:
    for lock in report.locks[:3]:  # type: ignore[attr-defined]
        for line in lines_of(describe(lock, Sight(report), look), cells):  # type: ignore[arg-type]
            text = "".join(text for text, _ in line)
            assert text.isprintable()
            assert look is LOOK or text.isascii()
            assert width(text) <= max(cells, 35)

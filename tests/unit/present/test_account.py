from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from pglock_inspect.model import Blocked, Held, Name
from pglock_inspect.present.account import accounts
from pglock_inspect.present.paper import Paper
from pglock_inspect.present.why import as_text
from tests.support.reports import HOLDER, PREPARED, SESSION, STALE, WAITER, ago, make_report

if TYPE_CHECKING:
    from pglock_inspect.model import Finding, Lock, Report

LEAKED = replace(
    STALE,
    rule="leaked",
    severity="warning",
    suggestion="have its application unlock there what it took, as often as it took it, or end the session: "
    "pglock-inspect kill 4711 --terminate",
)
LATE = replace(
    STALE,
    rule="waiting-long",
    severity="warning",
    pid=4720,
    suggestion="see what is in the way: pglock-inspect why 4711; to give up waiting: "
    "pglock-inspect kill 4720 --cancel",
)


def told(report: Report, width: int | None = 80) -> str:
    return as_text(
        [("t", accounts(report, [(lock.database, lock.key) for lock in report.locks]))], Paper(width=width)
    )


def line(label: str, *locks: Lock, findings: tuple[Finding, ...] = (), **more: object) -> str:
    """What stands under a label."""
    report = replace(make_report(*locks, findings=findings), **more)
    (account,) = accounts(report, [(lock.database, lock.key) for lock in locks])
    return "\n".join(line.text for line in account.lines if line.label == label)


def title(held: Held, *, stale: bool = False) -> str:
    lock = replace(HOLDER, held=held, findings=("stale",) if stale else ())
    return accounts(make_report(lock), [(lock.database, lock.key)])[0].title


def test_a_lock_that_was_left_behind() -> None:
    holder = replace(HOLDER, findings=("stale", "leaked"))
    second = replace(WAITER, pid=4733, waited_seconds=180.0)
    assert told(make_report(holder, second, WAITER, findings=(LEAKED, STALE))) == (
        "send_daily_digest in database app is STALE: held 42 min, allowed 10 min.\n"
        "  Held by   pid 4711, user app, worker-3 at 10.0.0.7:51234, idle for 42 min.\n"
        "  Known how the session has run nothing since 01:18:00 UTC; held at least\n"
        "            42 min, at most 3 h 2 min (connected 2026-11-29 22:58:00 UTC).\n"
        "  Likely    left behind on a pooled connection: the last statement was COMMIT,\n"
        "            and no transaction is open.\n"
        "  Waiting   2 sessions: pid 4720 (12 min), pid 4733 (3 min).\n"
        "  Do        pglock-inspect kill 4711 --terminate\n"
        "            (pg_cancel_backend would change nothing: the holder is idle)"
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_command_stays_on_one_line(width: int) -> None:
    lines = told(make_report(replace(HOLDER, findings=("leaked",)), findings=(LEAKED,)), width).splitlines()
    assert max(map(len, lines)) <= width
    command = "pglock-inspect kill 4711 --terminate"
    assert any(command in text for text in lines) or len(command) > width - 12
    assert command in " ".join(" ".join(lines).split())


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (Held(60.0, 60.0, 90.0, "session_state"), "has been held for 1 min"),
        (Held(60.0, 1.0, 90.0, "stamp"), "has been held for 1 min"),
        (Held(60.0, 1.0, 60.0, "transaction"), "has been held for at most 1 min"),
        (Held(60.0, 60.0, 60.0, "transaction"), "has been held for 1 min"),
        (Held(60.0, None, 90.0, "statement"), "has been held for about 1 min"),
        (Held(60.0, None, 90.0, "observed"), "has been held for about 1 min"),
        (Held(None, None, 90.0, "none"), "is held, for an unknown time (at most 1 min 30 s)"),
        (Held(None, None, None, "none"), "is held, for an unknown time"),
    ],
)
def test_a_title_says_how_far_an_age_is_proven(held: Held, said: str) -> None:
    assert title(held) == f"send_daily_digest in database app {said}, allowed 10 min."


def test_a_stale_title_says_so_too() -> None:
    assert " is STALE: held about 1 h, allowed " in title(Held(3600.0, None, None, "observed"), stale=True)


def test_what_connecting_does_not_prove_is_not_put_down_to_it() -> None:
    assert "(connected " in line("Known how", HOLDER)
    stamped = replace(HOLDER, held=Held(2_530.0, 2_520.0, 2_531.0, "stamp"))
    assert line("Known how", stamped) == (
        "the holder stamped the lock when it took it; held at least 42 min, at most 42 min."
    )


def test_what_a_holder_does_is_not_guessed() -> None:
    at_work = replace(HOLDER, session=replace(SESSION, state="active", query="VACUUM t"), findings=())
    assert (line("Runs", at_work), line("Likely", at_work)) == ("VACUUM t", "")
    waits = replace(HOLDER, findings=())
    assert (line("Last ran", waits), line("Likely", waits)) == ("COMMIT", "")
    elsewhere = replace(HOLDER, session=replace(SESSION, query="SELECT 1"), findings=("leaked",))
    assert line("Likely", elsewhere).startswith("left behind, or at work elsewhere: the last statement was ")
    assert not line("Likely", replace(PREPARED, findings=()))


def test_a_waiter_is_told_how_to_give_up_and_not_to_ask_again() -> None:
    holder, waiter = replace(HOLDER, findings=()), replace(WAITER, findings=("waiting-long",))
    assert line("Do", holder, waiter, findings=(LATE,)) == (
        "to give up waiting: pglock-inspect kill 4720 --cancel"
    )
    assert line("Do", holder, WAITER) == "nothing: all is as it should be."


def test_a_prepared_transaction_is_ended_by_a_statement_of_its_own() -> None:
    rule = "prepared"
    finding = replace(
        STALE,
        rule=rule,
        pid=None,
        key=PREPARED.key,
        suggestion="ROLLBACK PREPARED 'a  -- b'  -- in database app; COMMIT PREPARED, if its work is wanted",
    )
    assert line("Do", replace(PREPARED, findings=(rule,)), findings=(finding,)) == (
        "ROLLBACK PREPARED 'a  -- b'\n(in database app; COMMIT PREPARED, if its work is wanted)"
    )


def test_the_way_to_the_root() -> None:
    root = replace(
        SESSION, pid=9, application_name="billing", state="idle in transaction", state_change=ago(60)
    )
    chain = {
        4711: Blocked(4711, SESSION, "a relation lock (ShareLock)", 30.0, (9, 0)),
        9: Blocked(9, root, None, None, ()),
    }
    assert line("Blocked", HOLDER, chain=chain) == (
        "pid 4711 itself waits for a relation lock (ShareLock) for 30 s, blocked by pid 9, user app, billing "
        "at 10.0.0.7:51234, idle in transaction for 1 min: the root; a prepared transaction."
    )
    assert line("Do", HOLDER, findings=(STALE,), chain=chain) == (
        "end the root, if it may be ended: SELECT pg_terminate_backend(9)\n"
        "else the holder: pglock-inspect kill 4711 --terminate"
    )


def test_a_leader_holds_for_life() -> None:
    leader = replace(HOLDER, name=Name("leader", "known", maybe=True), max_held=None, findings=())
    report = make_report(leader)
    assert told(report).startswith(
        "leader (maybe) in database app has been held for 42 min, for life by design."
    )

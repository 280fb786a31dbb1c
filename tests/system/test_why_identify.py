from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING

import pytest

from pglock_inspect.config import load_settings
from pglock_inspect.demo.workload import CONFIGURATION, SERVER_SETTINGS, Workload
from pglock_inspect.watch import Watcher
from tests.support.command import Pglock
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers import Connect, Connection, StartServer


@pytest.fixture
def digest(connect: Connect) -> Connection:
    holder = connect("worker-3")
    holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    holder.execute("BEGIN")
    holder.execute("COMMIT")
    return holder


def test_the_demos_every_lock_is_accounted_for(start_server: StartServer, tmp_path: Path) -> None:
    settings = load_settings(config=CONFIGURATION, environ={}, cwd=CONFIGURATION.parent)
    server = start_server(SERVER_SETTINGS)
    with Workload(server) as workload, Watcher(workload.dsn(), settings) as watcher:
        report = workload.wait(watcher)
        pglock = Pglock(tmp_path, workload.dsn())

        def why(what: str) -> str:
            return pglock("why", "--config", str(CONFIGURATION), what).stdout

        both_wait = wait_until(
            lambda: re.search(r"(?s).*STALE.*Waiting   2 sessions: pid .*", why("rebuild_search_index")),
            "both wait (they give up now and then, and come back)",
        )
        assert both_wait
        stale = both_wait[0]
        assert re.match(r"rebuild_search_index in database app is STALE: held .*, allowed 1 s\.\n", stale)
        assert re.search(r"Waiting   2 sessions: pid \d+ \(.*\), pid \d+ \(.*\)\.", stale)
        assert "(pg_cancel_backend would change nothing: the holder is idle)" in stale
        assert "ROLLBACK PREPARED 'payout-8131'" in why("settle_payouts")
        assert "left behind on a pooled connection: the last statement was COMMIT" in why("export_invoices")
        assert "transaction-level, idle in transaction" in why("close_month")
        assert why("20270115").startswith("key 20270115 in database app has been held for ")
        assert ", shared, transaction-level, " in why("price_list")
        blocked = why("golang-migrate migrations")
        root = next(lock.pid for lock in report.locks if lock.name and lock.name.text == "close_month")
        assert f"blocked by pid {root}, user billing" in blocked
        assert (
            f"Do        end the root, if it may be ended: pglock-inspect kill {root} --terminate" in blocked
        )
        for lock in report.locks:
            for account in json.loads(pglock("why", "--format", "json", str(lock.key)).stdout):
                labels = [line["label"] for line in account["lines"]]
                assert labels[-1:] == ["Do"] or " is free: " in account["title"]


def test_a_left_behind_lock_reads_as_such(pglock: Pglock, digest: Connection) -> None:
    told = pglock("why", "send_daily_digest").stdout
    pid = digest.info.backend_pid
    assert re.match(r"send_daily_digest in database \S+ has been held for .*, allowed 1 h\.\n", told)
    assert f"Held by   pid {pid}, user postgres, worker-3 at " in told
    assert "Known how the session has run nothing since " in told
    assert "Likely    left behind on a pooled connection: the last statement was COMMIT" in told
    assert "Waiting   nobody." in told
    assert f"pglock-inspect kill {pid} --terminate" in told
    holder = told.splitlines()[1].partition(", idle for ")[0]
    for meant in (str(pid), f"pid:{pid}", "-1957215242", "4294967295/2337752054/1"):
        assert pglock("why", meant).stdout.splitlines()[1].startswith(f"{holder}, idle for ")


def test_a_waiter_is_listed_with_its_wait(pglock: Pglock, connect: Connect, digest: Connection) -> None:
    waiter, watch = connect("worker-1"), connect("watch")
    statement = "SELECT pg_advisory_lock(hashtext('send_daily_digest'))"
    thread = threading.Thread(target=waiter.execute, args=[statement])
    thread.start()
    wait_until(
        lambda: watch.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone() == (1,),
        "the waiter waits",
    )
    assert f"Waiting   1 session: pid {waiter.info.backend_pid}" in pglock("why", "send_daily_digest").stdout
    digest.close()
    thread.join()


def test_of_several_keys_each_is_told_what_to_do(pglock: Pglock, connect: Connect) -> None:
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(7), pg_advisory_lock(8)")
    holder.execute("SELECT 1")
    for key in ("7", "8"):
        told = pglock("why", key).stdout
        assert "Do        have its application unlock there what it took, as often as it took it, or" in told
        assert f"see what is known of it: pglock-inspect identify {key}" in told
        assert f"pglock-inspect kill {holder.info.backend_pid} --terminate" in told


def test_what_has_no_name_is_to_be_given_one_once_all_that_is_known_was_told(
    pglock: Pglock, connect: Connect
) -> None:
    connect().execute("SELECT pg_advisory_lock(20270115)")
    told = pglock("identify", "20270115").stdout
    assert "Do        configure a job with a name and key = 20270115\n" in told
    assert "pglock-inspect identify" not in told


def test_what_is_free_is_said_to_be_free(pglock: Pglock) -> None:
    free = r"in database \S+ is free: nobody holds it or waits for it\.\n"
    assert re.fullmatch(rf"key 999 {free}", pglock("why", "999").stdout)
    assert re.fullmatch(
        rf"nightly {free}"
        r"  Key       -?\d+ by hashtext, a guess: no job of this name is configured\.\n"
        r"  Do        if it should be held, compare its keys: pglock-inspect key nightly\n",
        pglock("why", "nightly").stdout,
    )
    pglock.directory.joinpath("pglock-inspect.toml").write_text(
        '[[jobs]]\nname = "nightly"\nkey = [7, 42]\n[[jobs]]\nname = "tenants"\nkey = [8, "*"]\n'
    )
    assert re.fullmatch(rf"nightly {free}", pglock("why", "nightly").stdout)
    assert re.fullmatch(
        r"pglock-inspect: nobody holds 'tenants' on \S+ or waits for it\n", pglock("why", "tenants").stderr
    )


def test_a_process_without_locks_is_refused_in_a_sentence(pglock: Pglock) -> None:
    done = pglock("why", "pid:1", code=3)
    assert not done.stdout
    assert re.search(r"'pid:1' holds no advisory lock and waits for none on ", done.stderr)


def test_a_deadlock_report_names_the_lock_from_its_statement(tmp_path: Path) -> None:
    report = (
        "DETAIL:  Process 4711 waits for ExclusiveLock on advisory lock [5,4294967295,2337752054,1]; "
        "blocked by process 4712.\n\tProcess 4711: SELECT pg_advisory_lock(hashtext('send_daily_digest'))\n"
    )
    told = Pglock(tmp_path)("identify", stdin=report).stdout
    assert told.startswith("send_daily_digest in database with oid 5\n")
    assert "Named by  the statement in the text (hashtext)" in told
    assert "Then      pid 4711 wanted it in mode ExclusiveLock, blocked by pid 4712" in told


def test_a_log_line_leads_to_its_holder(pglock: Pglock, digest: Connection) -> None:
    oid = digest.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    assert oid
    line = f"advisory lock [{oid[0]},4294967295,2337752054,1]"
    told = pglock("identify", line).stdout
    assert f"database {digest.info.dbname}" in told
    assert f"pid {digest.info.backend_pid}" in told


def test_known_software_is_told_offline(tmp_path: Path) -> None:
    assert "Flyway" in Pglock(tmp_path)("identify", "77433833903597").stdout


def test_what_is_no_key_is_refused_in_a_sentence(tmp_path: Path) -> None:
    done = Pglock(tmp_path)("identify", "no key at all", code=3)
    assert "is no key: write N (a bigint), A,B (two int4) or classid/objid/objsubid" in done.stderr

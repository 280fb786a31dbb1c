"""Sixty kinds of trouble with advisory locks, met in the field, and where each is replayed.

What shows on a server is replayed in SQL, and what the report says of it is asserted. The others say why not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parents[1]
SESSIONS, WAITING, KEYS, SERVER = (
    f"postgres/test_cases_{name}.py" for name in ("sessions", "waiting", "keys", "server")
)
FINDINGS = "postgres/findings/test_{}.py"


class Replayed(NamedTuple):
    """Trouble, and the tests that replay it, as `file::name`."""

    trouble: str
    tests: tuple[str, ...]


class Elsewhere(NamedTuple):
    """Trouble that is not for what a watcher says, and why."""

    trouble: str
    reason: str


def replayed(trouble: str, file: str, *names: str) -> Replayed:
    return Replayed(trouble, tuple(f"{file}::test_{name}" for name in names))


CASES = {
    "C01": replayed(
        "an error within the block: ROLLBACK keeps the lock, and no unlock works before it",
        SESSIONS,
        "a_rollback_after_an_error_keeps_the_lock",
    ),
    "C02": replayed(
        "an unlock from another session or in the other mode returns false",
        SESSIONS,
        "an_unlock_elsewhere_or_in_the_wrong_mode_changes_nothing",
    ),
    "C03": replayed(
        "a lock taken three times needs three unlocks, and shows as one row",
        SESSIONS,
        "a_lock_taken_three_times_is_one_row_and_never_said_to_be_held_once",
    ),
    "C05": replayed(
        "a transaction's lock ends with it and cannot be unlocked",
        SESSIONS,
        "nobody_is_told_to_unlock_what_ends_with_its_transaction",
    ),
    "C06": replayed(
        "a connection goes back to its pool with the lock",
        SESSIONS,
        "a_lock_goes_back_to_the_pool_with_its_connection",
    ),
    "C07": replayed(
        "a pooler sends the unlock elsewhere; the lock outlives all clients",
        WAITING,
        "a_pooler_keeps_the_lock_of_clients_that_are_gone",
    ),
    "C08": replayed(
        "a pooler gives two clients the same session, and so the same lock",
        FINDINGS.format("pooler"),
        "a_lock_that_two_clients_of_a_pooler_have_is_reported",
    ),
    "C10": replayed("waiters use up a pool", WAITING, "waiters_take_all_of_a_pool"),
    "C11": Elsewhere(
        "a managed proxy pins sessions, and ends a transaction's lock with its statement",
        "no such proxy is to be had; what it does to locks is C07 and C12, and `doctor` looks at the path",
    ),
    "C12": replayed(
        "a transaction's lock in autocommit, or across a COMMIT in a procedure, protects nothing",
        SESSIONS,
        "an_xact_lock_in_autocommit_is_never_seen",
        "a_commit_within_a_procedure_drops_its_lock",
    ),
    "C14": replayed(
        "an idle client is killed: the server notices at once",
        SESSIONS,
        "a_killed_idle_client_is_noticed_at_once",
    ),
    "C15": replayed(
        "a client is killed while its statement runs: the server does not look",
        SESSIONS,
        "a_killed_client_of_a_busy_session_is_not",
        "a_server_that_looks_for_its_client_notices",
    ),
    "C17": replayed(
        "a network partition: the lock stays for as long as keepalives take, which `doctor` computes",
        SESSIONS,
        "a_client_that_is_gone_without_a_trace_looks_like_an_idle_one",
    ),
    "C18": replayed(
        "a frozen process keeps its lock, and its kernel answers keepalives",
        SESSIONS,
        "a_frozen_client_misses_its_beats_and_a_live_one_does_not",
    ),
    "C19": replayed(
        "the server ended the holder's session: another has the lock, and the old holder does not know",
        SESSIONS,
        "who_takes_over_starts_a_hold_of_its_own",
    ),
    "C21": replayed(
        "one crashed session restarts the server, and all locks are gone",
        SERVER,
        "a_crash_of_any_session_frees_all_locks",
    ),
    "C23": Elsewhere(
        "Ctrl-C or a cancelled task while waiting",
        "for the helper, which leaves nothing locked: postgres/lock/test_lock_interrupts.py; "
        "to a watcher it is C33",
    ),
    "C24": replayed(
        "a cancel does nothing to an idle holder, and loses the work of a busy one that keeps its lock",
        SESSIONS,
        "a_cancel_changes_nothing_about_a_holder",
    ),
    "C25": replayed(
        "a waiter holds back VACUUM, its idle holder does not",
        FINDINGS.format("load"),
        "a_waiter_holds_back_vacuum_and_its_idle_holder_does_not",
    ),
    "C26": replayed(
        "an index build waits for a waiter whose holder waits for the build, outside of the database",
        FINDINGS.format("waiting"),
        "an_index_build_behind_a_waiter_of_an_idle_holder_is_a_hidden_deadlock",
    ),
    "C27": replayed(
        "an index build of the holder itself: a circle that the server breaks",
        WAITING,
        "a_circle_through_an_index_build_of_the_holder_is_left_to_the_server",
    ),
    "C30": Elsewhere(
        "ORDER BY does not say in which order locks are taken in a WHERE clause",
        "for the documentation of whoever takes many locks: rows in `pg_locks` have no order",
    ),
    "C31": replayed(
        "a migration tool times out on a lock, and does not say whose",
        KEYS,
        "the_lock_of_a_migration_tool_is_named_without_configuration",
    ),
    "C32": replayed(
        "lock and unlock compute different keys", SESSIONS, "an_unlock_of_another_key_leaves_the_lock"
    ),
    "C33": replayed(
        "a wait without a limit, or one that ends by a time-out",
        WAITING,
        "who_gives_up_waiting_is_gone_from_the_queue",
    ),
    "C34": replayed(
        "who polls with pg_try_advisory_lock() never shows as waiting",
        WAITING,
        "pollers_do_not_wait_and_are_not_said_to",
    ),
    "C37": replayed(
        "pg_blocking_pids() is about processes: granted locks of a blocked holder look blocked",
        WAITING,
        "a_queue_is_told_from_its_holder_and_a_blocked_holder_from_its_lock",
    ),
    "C38": replayed(
        "a driver opens a transaction for the lock statement and never ends it",
        SESSIONS,
        "a_driver_that_opens_a_transaction_makes_its_lock_session_look_forgetful",
    ),
    "C39": replayed(
        "an open transaction holds back VACUUM only if it wrote or keeps a snapshot",
        SERVER,
        "a_holder_is_said_to_hold_back_vacuum_where_it_does",
    ),
    "C40": replayed(
        "a prepared transaction holds a lock without a process, also after a restart",
        SERVER,
        "a_prepared_transaction_outlives_its_session_and_its_server",
    ),
    "C41": replayed(
        "a lock held in both levels cannot be prepared, a session's lock stays with the session",
        SERVER,
        "one_lock_in_both_levels_cannot_be_prepared",
    ),
    "C42": Elsewhere(
        "a snapshot older than the lock: stale reads, or failures to serialize",
        "for the helper, which wants a connection in no transaction; the lock itself is in order",
    ),
    "C43": Elsewhere(
        "the unlock comes before the COMMIT",
        "for the helper, where it is UncommittedWork; on the server there is no lock to see any more",
    ),
    "C45": replayed(
        "a bigint shows as two unsigned halves; 42 and (0, 42) differ in objsubid alone",
        KEYS,
        "each_key_is_shown_as_it_was_written",
        "a_bigint_and_a_pair_of_the_same_halves_exclude_nothing",
    ),
    "C46": replayed(
        "an extension takes keys of a class of its own; no such extension is in PostgreSQL, so by values",
        "unit/findings/test_by_values.py",
        "the_key_of_an_extension_is_not_taken_for_a_number",
    ),
    "C47": replayed(
        "two names have one 32-bit hash",
        FINDINGS.format("keys"),
        "two_jobs_whose_names_have_one_hash_collide",
    ),
    "C48": replayed(
        "a key that differs from process to process excludes nobody",
        KEYS,
        "replicas_whose_keys_differ_from_run_to_run_show_as_unnamed",
    ),
    "C52": replayed(
        "the lock table is full: no logins, and views that join catalogs fail",
        "postgres/test_watcher.py",
        "a_full_lock_table_is_watched_by_who_was_there_before",
    ),
    "C53": replayed(
        "a role without pg_monitor sees no states and no times of others",
        FINDINGS.format("load"),
        "a_role_that_may_not_see_others_says_once_what_is_missing",
    ),
    "C54": replayed(
        "every later statement makes a lock look younger",
        SESSIONS,
        "a_later_statement_does_not_make_a_lock_younger",
    ),
    "C55": replayed(
        "polls miss short locks", SESSIONS, "locks_between_two_polls_are_not_seen_and_not_missed"
    ),
    "C56": replayed(
        "activity is frozen within a transaction, so a watcher must not be in one",
        "postgres/test_reader_session.py",
        "between_polls_it_is_idle_and_in_no_transaction",
        "each_poll_sees_what_happened_since_the_last",
    ),
    "C58": replayed(
        "a locked catalog: whoever connects anew for each look piles up",
        "postgres/test_reader_session.py",
        "a_locked_catalog_holds_a_reader_up_for_a_moment_only",
    ),
    "C59": Elsewhere(
        "a gauge keeps its last value after the lock is gone", "for the exporter: it is made of one report"
    ),
    "C60": Elsewhere(
        "labels with keys and pids blow up a Prometheus",
        "for the exporter, which names configured jobs only",
    ),
    "C61": replayed(
        "alarms about the number of locks, or about leaders, are noise",
        FINDINGS.format("age"),
        "a_job_within_its_limit_or_held_for_life_is_not_stale",
    ),
    "C63": replayed(
        "waiters use up all connections", WAITING, "waiters_take_all_connections_but_the_watchers"
    ),
    "C64": replayed(
        "thousands of locks, and a queue", SERVER, "six_thousand_locks_and_a_queue_are_few_findings"
    ),
    "C66": replayed(
        "a replica waits in a trigger: a worker without a name and a statement",
        SERVER,
        "a_replica_that_waits_in_a_trigger_is_shown_for_what_it_is",
    ),
    "C68": replayed(
        "locks of parallel queries belong to the leader",
        SESSIONS,
        "locks_of_parallel_queries_are_the_leaders",
    ),
    "C72": Elsewhere(
        "a server that speaks the protocol, and whose lock functions do nothing",
        "for `doctor`, whose two sessions test that locks exclude",
    ),
    "C73": Elsewhere(
        "a server whose pg_locks shows no advisory locks, or one row for each hold", "for `doctor`, as C72"
    ),
    "C74": replayed(
        "a managed service's own sessions cannot be ended",
        "postgres/test_kill.py",
        "only_superusers_end_superusers",
    ),
    "C75": Elsewhere(
        "a service that suspends idle servers ends the session, and the lock with it",
        "for the helper's on_lost and the documentation; to a watcher it is C19 or C21",
    ),
    "C76": replayed(
        "statements and names with control characters",
        "postgres/test_reader_text.py",
        "text_is_passed_on_as_it_was_sent",
        "names_of_databases_and_roles_may_be_any_text",
    ),
    "C78": Elsewhere("columns that do not fit, and resizing", "for `top`"),
    "C79": Elsewhere("psycopg's async mode on Windows", "a watcher is synchronous"),
    "C81": Elsewhere(
        "home-made locks in a table run jobs twice", "for the helper; no advisory lock is there to see"
    ),
    "C82": replayed(
        "a leader and a stuck job look alike but for the beats",
        SESSIONS,
        "a_leader_is_watched_by_its_beats_alone",
    ),
    "C83": Elsewhere(
        "only the server's log tells of waits that are over", "for `identify`, which reads its lines"
    ),
}
REPLAYED = {test for case in CASES.values() if isinstance(case, Replayed) for test in case.tests}


def test_all_sixty_are_here() -> None:
    assert len(CASES) == 60
    assert list(CASES) == sorted(CASES)


@pytest.mark.parametrize("test", sorted(REPLAYED))
def test_what_replays_a_case_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert re.search(rf"^def {name}\(", TESTS.joinpath(file).read_text(), re.MULTILINE)


@pytest.mark.parametrize("file", [SESSIONS, WAITING, KEYS, SERVER])
def test_every_replay_is_of_a_case(file: str) -> None:
    names = re.findall(r"^def (test_\w+)\(", TESTS.joinpath(file).read_text(), re.MULTILINE)
    assert names
    assert {f"{file}::{name}" for name in names} <= REPLAYED

"""Trouble with keys: what a watcher makes of the numbers in `pg_locks`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job
from tests.support.watching import found, lock_of, locks_of, soon

if TYPE_CHECKING:
    from pglock_inspect.keys import Value
    from tests.support.servers import Connect
    from tests.support.watching import Watch


@pytest.mark.parametrize(
    ("arguments", "shown", "value"),
    [
        ("-1", (4294967295, 4294967295, 1), -1),
        ("-42", (4294967295, 4294967254, 1), -42),
        ("hashtext('cleanup')", (4294967295, 2196183966, 1), -2098783330),
        ("hashtext('nightly-report')", (0, 759228614, 1), 759228614),
        ("42", (0, 42, 1), 42),
        ("4294967303", (1, 7, 1), 4294967303),
        ("-9223372036854775808", (2147483648, 0, 1), -9223372036854775808),
        ("9223372036854775807", (2147483647, 4294967295, 1), 9223372036854775807),
        ("1, 7", (1, 7, 2), (1, 7)),
        ("-1, -1", (4294967295, 4294967295, 2), (-1, -1)),
        ("0, 42", (0, 42, 2), (0, 42)),
        ("7, hashtext('nightly-report')", (7, 759228614, 2), (7, 759228614)),
    ],
)
def test_each_key_is_shown_as_it_was_written(
    connect: Connect, watch: Watch, arguments: str, shown: tuple[int, int, int], value: Value
) -> None:
    session = connect()
    session.execute(f"SELECT pg_advisory_lock({arguments})")
    key = lock_of(watch().poll(), session).key
    assert key == AdvisoryKey(*shown)
    assert key.value == value
    other = connect()
    assert other.execute(f"SELECT pg_try_advisory_lock({key.sql_arguments})").fetchone() == (False,)


def test_a_bigint_and_a_pair_of_the_same_halves_exclude_nothing(connect: Connect, watch: Watch) -> None:
    bigint, pair = connect(), connect()
    bigint.execute("SELECT pg_advisory_lock(4294967298)")
    assert pair.execute("SELECT pg_try_advisory_lock(1, 2)").fetchone() == (True,)
    report = watch().poll()
    assert [str(lock_of(report, session).key) for session in (bigint, pair)] == ["4294967298", "1,2"]
    assert lock_of(report, bigint).waiters == 0


def test_the_lock_of_a_migration_tool_is_named_without_configuration(connect: Connect, watch: Watch) -> None:
    migrator = connect("migrator-1")
    migrator.execute("SELECT pg_advisory_lock(%s)", [72707369])
    name = lock_of(watch().poll(), migrator).name
    assert name is not None
    assert name.source == "known"
    assert name.product is not None
    assert "Prisma" in name.product


def test_replicas_whose_keys_differ_from_run_to_run_show_as_unnamed(connect: Connect, watch: Watch) -> None:
    """As with Python's `hash()`, which is salted: both get their lock."""
    replicas = connect("replica-1"), connect("replica-2")
    for replica, key in zip(replicas, (1833163401, 815687658), strict=True):
        assert replica.execute("SELECT pg_try_advisory_lock(%s)", [key]).fetchone() == (True,)
    watcher = watch(Job("nightly", every=0.1, min_held=60))
    assert soon(watcher, "never-seen", job="nightly").suggestion.endswith("pglock-inspect key nightly")
    report = watcher.poll()
    (finding,) = found(report, "unnamed")
    assert finding.summary == "2 locks in database postgres, held by 2 holders, have no name"
    assert [len(locks_of(report, replica)) for replica in replicas] == [1, 1]

"""Locks on a standby: its own, and they survive its promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from pglock_inspect.postgres import Reader
from tests.support.snapshots import key, keys_of
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.servers import StartServer

EXCLUSIVE = "ExclusiveLock"


def test_a_standby_has_locks_of_its_own_which_survive_its_promotion(start_server: StartServer) -> None:
    primary = start_server()
    with (
        primary.standby() as standby,
        psycopg.connect(primary.dsn(), autocommit=True) as above,
        psycopg.connect(standby.dsn(), autocommit=True) as below,
        Reader(primary.dsn()) as of_primary,
        Reader(standby.dsn()) as of_standby,
    ):
        above.execute("SELECT pg_advisory_lock(1)")
        below.execute("SELECT pg_advisory_lock(2)")
        snapshot = of_standby.read()
        assert snapshot.server.in_recovery
        assert keys_of(snapshot, below) == {(key(2), EXCLUSIVE)}
        assert [rows.pid for rows in snapshot.locks] == [below.info.backend_pid]
        assert {"startup", "walreceiver"} <= {each.backend_type for each in snapshot.sessions.values()}

        shown = of_primary.read()
        assert not shown.server.in_recovery
        assert keys_of(shown, above) == {(key(1), EXCLUSIVE)}
        walsender = next(each for each in shown.sessions.values() if each.backend_type == "walsender")
        assert walsender.application_name == "standby"
        assert not walsender.idle

        below.execute("SELECT pg_promote()")
        wait_until(lambda: not of_standby.read().server.in_recovery, "the standby is promoted")
        promoted = of_standby.read()
        assert keys_of(promoted, below) == {(key(2), EXCLUSIVE)}
        assert promoted.server.started_at == snapshot.server.started_at

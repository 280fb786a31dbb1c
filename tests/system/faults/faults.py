"""All faults: what each of the four shows during it, how soon they show the truth again, and what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.system.faults import acts, places

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from tests.support.servers import StartServer
    from tests.system.faults.stage import Stage

Parts = tuple[str, ...]

OK: Parts = ("0: PGLOCK OK",)


class Shown(NamedTuple):
    """The parts of what each shows, in their order."""

    watcher: Parts = ("nightly held",)
    serve: Parts = ("pglock_up 1", "pglock_job_held 1")
    top: Parts = ("connected", "nightly")
    check: Parts = OK


class Fault(NamedTuple):
    """`place` sets the stage, `act` is made and mended on it. `shown` is seen while it lasts.

    `failures`: as many polls may fail, at most, once it is mended; None: not one does at any time.
    `ends_holds`: the sessions of the workers end by it. `steps_clock`: ages from before are void. `quick`: it
    is no slow test. `requires`: programs, besides tmux.
    """

    name: str
    act: Callable[[Any], AbstractContextManager[None]]
    shown: Shown
    place: Callable[[StartServer], Stage] = places.plain
    failures: int | None = None
    ends_holds: bool = False
    steps_clock: bool = False
    quick: bool = False
    requires: tuple[str, ...] = ()


def away(reason: str, *said: str) -> Shown:
    """Return what is shown while nobody can read the server, and what is said of it."""
    return Shown(
        watcher=(f"{reason}:", *said),
        serve=("pglock_up 0", f'reason="{reason}"'),
        top=("lost", *said),
        check=("3: PGLOCK UNKNOWN", *said),
    )


def found(rule: str, top: str, check: Parts = OK) -> Shown:
    """Return what is shown by whoever goes on, with a finding."""
    shown = Shown()
    return Shown(
        (*shown.watcher, rule), (*shown.serve, f'rule="{rule}"'), ("connected", top, "nightly"), check
    )


def critical(said: str) -> Parts:
    return ("2: PGLOCK CRITICAL", said)


SILENT = away("timeout", "connection timeout expired")._replace(
    top=("silent", "the server has not answered for", "nightly")
)

FAULTS = (
    Fault(
        "The server is restarted (fast)",
        acts.stop,
        away("connect", "Connection refused"),
        failures=1,
        ends_holds=True,
    ),
    Fault(
        "The server is restarted (immediate)",
        acts.stop_at_once,
        away("connect", "Connection refused"),
        failures=1,
        ends_holds=True,
        quick=True,
    ),
    Fault(
        "SIGKILL of the postmaster",
        acts.kill,
        away("connect", "Connection refused"),
        failures=1,
        ends_holds=True,
    ),
    Fault(
        "Crash recovery, again and again",
        acts.crash,
        away("connect", "the database system is", "takes connections again by itself"),
        failures=1,
        ends_holds=True,
    ),
    Fault(
        "Failover to a promoted standby (a connection string with two hosts)",
        acts.fail_over,
        away("connect", "session is read-only", "wait for the end of a failover"),
        places.TwoHostsStage,
        failures=1,
        ends_holds=True,
    ),
    Fault(
        "The watching sessions are terminated, again and again",
        acts.terminate,
        away("connect", "server closed the connection unexpectedly")._replace(check=OK),
        failures=1,
        quick=True,
    ),
    Fault(
        "Half-open connection: the network drops all packets",
        acts.drop_packets,
        SILENT,
        failures=1,
        requires=("root", "iptables"),
    ),
    Fault(
        "Connections stay open, and nobody answers",
        acts.answer_nothing,
        SILENT,
        places.ProxyStage,
        failures=1,
    ),
    Fault("Slow network: 0.1 s for each packet", acts.delay_packets, Shown(), places.ProxyStage),
    Fault(
        "PgBouncer is restarted",
        acts.stop_pooler,
        away("connect", "Connection refused"),
        places.PoolerStage,
        failures=1,
        requires=("pgbouncer",),
    ),
    Fault(
        "`max_connections` is reached",
        acts.take_all_connections,
        Shown(check=critical("remaining connection slots are reserved")),
        places.small,
        quick=True,
    ),
    Fault(
        "The connection limit of the watching role is reached",
        acts.limit_the_role,
        Shown(check=critical('too many connections for role "watch"')),
        places.with_role,
    ),
    Fault(
        "The lock table is full",
        acts.take_all_locks,
        found("lock-table-filling", "2 warning", critical("out of shared memory"))._replace(
            top=("connected", "2 warning")
        ),
        places.small,
        quick=True,
    ),
    Fault(
        "The disk is full for temporary files",
        acts.fill_the_disk,
        Shown(top=("connected", "5001 held"), check=("1: PGLOCK WARNING", "holds 5,000 advisory locks")),
        requires=("root",),
    ),
    Fault(
        "Somebody has locked `pg_authid`",
        acts.lock_pg_authid,
        Shown(check=critical("the server answers, but the login hangs")),
        quick=True,
    ),
    Fault(
        "The server's clock is two hours ahead of the watcher's",
        acts.nothing,
        Shown(),
        places.ahead,
        requires=("faketime",),
    ),
    Fault(
        "The server's clock is two hours behind the watcher's",
        acts.nothing,
        Shown(),
        places.behind,
        requires=("faketime",),
    ),
    Fault(
        "The server's clock steps forward by two hours, and back",
        acts.step_forward,
        found("clock-step", "1 info", (*OK, "the server's clock stepped forward by")),
        places.ClockStage,
        steps_clock=True,
        requires=("faketime",),
    ),
    Fault(
        "The server's clock steps back by two hours, and forward",
        acts.step_back,
        found("clock-step", "1 info", (*OK, "the server's clock stepped back by")),
        places.ClockStage,
        steps_clock=True,
        requires=("faketime",),
    ),
    Fault(
        "The password is changed and the sessions are ended",
        acts.change_the_password,
        away("auth", 'password authentication failed for user "watch"'),
        places.with_role,
        failures=1,
    ),
    Fault(
        "The watching role is dropped",
        acts.drop_the_role,
        away("auth", 'password authentication failed for user "watch"'),
        places.with_role,
        failures=1,
    ),
    Fault(
        "The role of a worker is dropped",
        acts.drop_the_role_of_the_worker,
        Shown(),
        places.with_worker_of_a_role,
    ),
    Fault(
        "The database of the watching sessions is dropped",
        acts.drop_the_database,
        away("connect", 'database "app" does not exist'),
        places.with_database,
        failures=1,
    ),
    Fault(
        "`pg_monitor` is revoked",
        acts.revoke_pg_monitor,
        found("no-pg-monitor", "1 info", (*OK, "may not see what other users' sessions do")),
        places.with_role,
    ),
    Fault(
        "The right to read locks is revoked",
        acts.revoke_execute,
        away("other", "permission denied for function pg_lock_status", "grant that to this role"),
        places.with_role,
        failures=1,
    ),
    Fault("`track_activities = off`", acts.stop_tracking, Shown()),
    Fault("An SQL_ASCII database, and text in no encoding", acts.nothing, Shown(), places.sql_ascii),
    Fault(
        "A LATIN1 database, and a name that is not ASCII",
        acts.nothing,
        Shown(watcher=("für dich held",), top=("connected", "für dich")),
        places.latin1,
    ),
)

"""From what was measured to grades, words and fixes."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pglock_inspect.doctor import Case, Check, Exclusion, Measured, Override, Setting, Trial, examine
from pglock_inspect.doctor.lifetimes import silence
from pglock_inspect.model import Finding, Job, JobState, Report, to_instant
from tests.support.reports import HOLDER, SERVER, SESSION, UNREACHABLE, make_report

EXCLUDES = tuple(
    Trial(level, first=True, shown=True, second=False, released=True, after=True)
    for level in ("session", "transaction")
)
NUMBERS = {
    "tcp_keepalives_idle": 30.0,
    "tcp_keepalives_interval": 10.0,
    "tcp_keepalives_count": 3.0,
    "tcp_user_timeout": 60.0,
    "client_connection_check_interval": 10.0,
    "idle_session_timeout": 0.0,
    "idle_in_transaction_session_timeout": 0.0,
    "statement_timeout": 0.0,
    "lock_timeout": 0.0,
    "max_connections": 100.0,
    "superuser_reserved_connections": 3.0,
    "track_activities": 1.0,
}
HEALTHY = Measured(
    product="PostgreSQL 18.6 on x86_64-pc-linux-gnu, compiled by gcc 12.2.0, 64-bit",
    role="watcher",
    login_pid=4000,
    pid=4000,
    shared=False,
    network=True,
    in_recovery=False,
    may_signal=True,
    connections=10,
    ahead=0.001,
    ahead_error=0.0005,
    settings={name: Setting(value, value) for name, value in NUMBERS.items()},
    exclusion=Exclusion(EXCLUDES),
)


def case(report: Report | None = None, **measured: object) -> Case:
    return Case(replace(HEALTHY, **measured), report or make_report(HOLDER))


def settings(**changed: float | Setting) -> dict[str, Setting]:
    return dict(HEALTHY.settings) | {
        name: value if isinstance(value, Setting) else Setting(value, value)
        for name, value in changed.items()
    }


def found(name: str, examined: Case) -> Check:
    (check,) = [check for check in examine(examined) if check.name == name]
    return check


def test_a_server_where_all_is_well_has_nothing_to_fix() -> None:
    checks = examine(case())
    assert {check.grade for check in checks} == {"ok"}
    assert not [check for check in checks if check.fix]
    assert len({check.name for check in checks}) == len(checks) == 16


def test_what_cannot_be_read_is_told_once() -> None:
    checks = examine(case(UNREACHABLE))
    assert [check.name for check in checks if check.grade != "ok"] == ["reading"]
    assert not {check.name for check in checks} & {"visibility", "lock-table", "collisions"}
    assert found("reading", case(UNREACHABLE)).value == UNREACHABLE.error


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        ({"tcp_keepalives_idle": 7200, "tcp_keepalives_interval": 75, "tcp_keepalives_count": 9}, 7875),
        ({}, 60),
        ({"tcp_user_timeout": 0}, 924.6),  # an answer on its way is sent again for that long
        ({"tcp_keepalives_idle": 4, "tcp_keepalives_interval": 1, "tcp_user_timeout": 1}, 5),
        ({"tcp_keepalives_idle": 2, "tcp_keepalives_interval": 2, "tcp_user_timeout": 3}, 4),
        ({"tcp_keepalives_idle": 2, "tcp_keepalives_interval": 1, "tcp_user_timeout": 8}, 8),
        ({"tcp_keepalives_idle": 60, "tcp_user_timeout": 95}, 100),
    ],
)
def test_a_silent_peer_is_given_up_by_the_settings(changed: dict[str, float], seconds: float) -> None:
    if seconds == 7875:
        changed = {**changed, "tcp_user_timeout": 0}
    assert silence(case(settings=settings(**changed))).seconds == seconds


def test_what_the_kernel_decides_is_assumed_and_called_so() -> None:
    asked = Setting(value=7200, default=0)
    assert "unless told otherwise" not in silence(case(settings=settings(tcp_keepalives_idle=asked))).text
    over_a_socket = silence(
        case(
            network=False,
            settings=settings(
                tcp_keepalives_idle=Setting(value=0, default=0), tcp_user_timeout=Setting(value=0, default=0)
            ),
        )
    )
    assert over_a_socket.seconds == 7200 + 3 * 10
    assert over_a_socket.text.endswith(", as Linux does unless told otherwise")
    # Over a socket the values of this session say nothing; those that others begin with do.
    for_others = settings(tcp_keepalives_idle=Setting(value=0, default=40))
    assert silence(case(network=False, settings=for_others)).seconds == 60


def test_a_lock_that_outlives_its_client_for_hours_is_warned_of() -> None:
    defaults = settings(
        tcp_keepalives_idle=7200, tcp_keepalives_interval=75, tcp_keepalives_count=9, tcp_user_timeout=0
    )
    check = found("dead-client", case(settings=defaults))
    assert check.grade == "warning"
    assert "lives up to 2 h 11 min (keepalives after 7200 s, then 9 times every 75 s)" in check.value
    assert check.fix
    # What it says to do, does it.
    fixed = {name: float(value) for name, value in re.findall(r"SET (tcp_\w+) = '?(\d+)", check.fix)}
    assert len(fixed) == 4
    assert found("dead-client", case(settings=settings(**fixed))).grade == "ok"
    # A time-out for sessions outside of transactions does not help those inside; both do.
    one = dict(defaults) | settings(idle_session_timeout=60) | {"tcp_user_timeout": Setting(0, 0)}
    one |= {name: defaults[name] for name in defaults if name.startswith("tcp_keep")}
    assert found("dead-client", case(settings=one)).grade == "warning"
    both = one | {"idle_in_transaction_session_timeout": Setting(90, 90)}
    check = found("dead-client", case(settings=both))
    assert check.grade == "ok"
    assert "lives up to 1 min 30 s" in check.value


def test_behind_a_pooler_the_pooler_has_to_notice() -> None:
    assert "the pooler has to notice" in found("dead-client", case(login_pid=1)).value


def test_a_client_that_dies_at_work_is_noticed_only_where_that_is_set() -> None:
    assert found("busy-client", case()).value.endswith("noticed within 10 s")
    off = found("busy-client", case(settings=settings(client_connection_check_interval=0)))
    assert off.grade == "warning"
    assert off.fix
    assert "client_connection_check_interval = '10s'" in off.fix
    before_14 = {name: value for name, value in HEALTHY.settings.items() if not name.startswith("client_c")}
    assert "before PostgreSQL 14" in found("busy-client", case(settings=before_14)).value


def test_a_time_out_is_a_danger_to_holders_that_are_idle() -> None:
    timeout = settings(idle_session_timeout=600)
    check = found("idle-time-outs", case(settings=timeout))  # the holder is idle
    assert check.grade == "warning"
    assert check.value.startswith("idle_session_timeout = 10 min; 1 holder of locks is idle now")
    busy = replace(HOLDER, session=replace(SESSION, state="active"))
    assert found("idle-time-outs", case(make_report(busy), settings=timeout)).grade == "ok"
    in_transaction = replace(HOLDER, session=replace(SESSION, state="idle in transaction"))
    assert found("idle-time-outs", case(make_report(in_transaction), settings=timeout)).grade == "ok"
    both = settings(idle_in_transaction_session_timeout=600)
    assert found("idle-time-outs", case(make_report(in_transaction), settings=both)).grade == "warning"


def test_what_other_roles_have_set_is_told() -> None:
    overrides = (
        Override("worker", None, "idle_session_timeout=5min"),
        Override(None, "app", "lock_timeout=2s"),
        Override("worker", "app", "statement_timeout=30s"),
    )
    examined = case(overrides=overrides)
    assert "idle_session_timeout=5min for role worker" in found("idle-time-outs", examined).value
    waits = found("wait-time-outs", examined).value
    assert "lock_timeout=2s for every role in database app" in waits
    assert "statement_timeout=30s for role worker in database app" in waits
    assert "may own the lock after all" in waits


TODAY = to_instant(datetime(2026, 7, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("product", "grade", "value"),
    [
        ("PostgreSQL 18.6 on x86_64, compiled by gcc, 64-bit", "ok", "PostgreSQL 18.6"),
        ("PostgreSQL 19beta1 on x86_64, compiled by gcc", "ok", "PostgreSQL 19beta1"),
        (
            "PostgreSQL 15.6 (Debian 15.6-0+deb12u1) on x86_64, by gcc (Debian 12.2) 12.2, 64-bit",
            "ok",
            "Debian",
        ),
        ("PostgreSQL 14.23 on aarch64, compiled by clang", "ok", "PostgreSQL 14.23"),
        (
            "PostgreSQL 13.23 on x86_64",
            "warning",
            "which has had no fixes since 2025-11-13; before 14 it does",
        ),
        ("PostgreSQL 12.22 on x86_64", "warning", "which has had no fixes since 2024-11-21"),
        ("PostgreSQL 11.1 on x86_64", "failure", "PostgreSQL 11.1"),
        ("PostgreSQL 11.2-YB-2.19.0.0-b190 on x86_64, compiled by clang", "warning", "not PostgreSQL itself"),
        ("PostgreSQL 8.0.2 on i686, compiled by GCC, Redshift 1.0.12103", "warning", "not PostgreSQL itself"),
        ("CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)", "warning", "CockroachDB, not PostgreSQL itself"),
        ("PostgreSQL 12.3, 64-bit QuestDB", "warning", "not PostgreSQL itself"),
        ("PostgreSQL 13.14.0-RisingWave-2.0.1 (1234567)", "warning", "RisingWave, not PostgreSQL itself"),
        ("PostgreSQL 9.5 on x86_64-unknown-linux-gnu (Materialize 0.9)", "warning", "Materialize, not"),
        ("PostgreSQL 16", "warning", "it calls itself 'PostgreSQL 16', which is not PostgreSQL itself"),
        ("PostgreSQL 16.3 (EnterpriseDB Advanced Server 16.3.0) on x86_64", "ok", "PostgreSQL 16.3"),
    ],
)
def test_other_products_and_old_versions_are_unmasked(product: str, grade: str, value: str) -> None:
    check = found("version", case(replace(make_report(), taken_at=TODAY), product=product))
    assert check.grade == grade
    assert value in check.value
    assert (check.fix is None) is (grade == "ok")


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"second": True}, "two sessions got the same transaction-level lock: it excludes nobody"),
        ({"first": False}, "no session got a transaction-level lock on a random key"),
        ({"shown": False}, "a transaction-level lock that is held does not show in pg_locks"),
        ({"released": False}, "a transaction-level lock that was released could not be taken again"),
        ({"after": False}, "a transaction-level lock that was released could not be taken again"),
    ],
)
def test_locks_that_do_not_do_what_they_should_are_a_failure(wrong: dict[str, bool], problem: str) -> None:
    good, other = EXCLUDES
    check = found("self-test", case(exclusion=Exclusion((good, replace(other, **wrong)))))
    assert (check.grade, check.value) == ("failure", problem)


def test_a_self_test_that_could_not_be_made_is_a_warning_but_for_missing_functions() -> None:
    check = found("self-test", case(exclusion=Exclusion(problem="too many connections for role")))
    assert (check.grade, check.value) == ("warning", "could not be made: too many connections for role")
    missing = Exclusion(problem="unknown function: pg_try_advisory_lock()", missing=True)
    assert found("self-test", case(exclusion=missing)).grade == "failure"


@pytest.mark.parametrize(
    ("measured", "grade", "value"),
    [
        ({}, "ok", "none showed: pid 4000 at login and in each statement (which some poolers imitate)"),
        ({"login_pid": 17}, "warning", "the login said pid 17, the session says 4000"),
        ({"login_pid": 17, "shared": True}, "failure", "one pools by transaction"),
        ({"shared": True}, "failure", "one pools by transaction"),
        ({"shared": None}, "ok", "none showed"),
    ],
)
def test_a_pooler_is_told_by_what_proves_it(measured: dict[str, Any], grade: str, value: str) -> None:
    check = found("pooler", case(**measured))
    assert check.grade == grade
    assert value in check.value


@pytest.mark.parametrize(
    ("ahead", "error", "grade", "value"),
    [
        (0.4, 0.01, "ok", "differs from the one here by 400 ms (± 10 ms)"),
        (4.0, 0.01, "warning", "the server's is 4 s ahead of the one here (± 10 ms)"),
        (-90.0, 0.5, "warning", "the server's is 1 min 30 s behind the one here"),
        (1.5, 1.0, "ok", "by 1.5 s (± 1 s)"),  # a slow line proves nothing
    ],
)
def test_clocks_are_compared_within_what_can_be_known(
    ahead: float, error: float, grade: str, value: str
) -> None:
    check = found("clock", case(ahead=ahead, ahead_error=error))
    assert check.grade == grade
    assert value in check.value


@pytest.mark.parametrize(("rows", "grade"), [(5000, "ok"), (5632, "warning"), (7040, "failure")])
def test_the_lock_table_is_watched(rows: int, grade: str) -> None:
    assert found("lock-table", case(replace(make_report(), lock_table_rows=rows))).grade == grade


@pytest.mark.parametrize(("taken", "grade"), [(77, "ok"), (78, "warning"), (97, "failure")])
def test_connections_of_superusers_are_not_counted_upon(taken: int, grade: str) -> None:
    check = found("connections", case(connections=taken))
    assert (check.grade, check.value) == (grade, f"{taken} of 97 taken")


def test_rights_are_told_with_what_to_grant() -> None:
    blind = replace(make_report(), server=replace(SERVER, privileged=False))
    check = found("visibility", case(blind))
    assert (check.grade, check.fix) == ("warning", "GRANT pg_monitor TO watcher")
    watches = found("signals", case(may_signal=False))
    assert watches.grade == "ok"
    assert "GRANT pg_signal_backend TO watcher" in watches.value


def test_a_standby_and_sessions_that_tell_nothing_are_warned_of() -> None:
    assert found("standby", case(in_recovery=True)).grade == "warning"
    assert found("activity", case(settings=settings(track_activities=0))).grade == "warning"


def test_colliding_jobs_are_told() -> None:
    finding = Finding("collision", "warning", "a and b have the same key", "key 1", "give one another key")
    check = found("collisions", case(make_report(findings=(finding,))))
    assert (check.grade, check.value, check.fix) == (
        "warning",
        "a and b have the same key",
        "give one another key",
    )
    jobs = tuple(JobState(Job(name), None) for name in ("a", "b"))
    assert found("collisions", case(replace(make_report(), jobs=jobs))).value.startswith(
        "2 jobs are configured"
    )


def test_the_page_explains_every_check() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "commands.md").read_text()
    table = "".join(
        re.findall(r"^\|[^|]*\|", page.partition("## doctor")[2].partition("\n## ")[0], re.MULTILINE)
    )
    explained = re.findall(r"`([\w-]+)`", table)
    assert explained == [check.name for check in examine(case())]

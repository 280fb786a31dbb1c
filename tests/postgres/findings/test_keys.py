"""`same-key-two-databases`, `collision` and `unnamed`: keys and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job
from pglock_inspect.schemes import key_of
from tests.support.watching import found, lock_of, locks_of, soon

if TYPE_CHECKING:
    from tests.support.servers import Connect
    from tests.support.watching import Watch

NIGHTLY = key_of("nightly", "hashtext")
TAKE = "SELECT pg_advisory_lock(hashtext('nightly'))"


def test_a_job_held_in_two_databases_is_reported(database: str, connect: Connect, watch: Watch) -> None:
    here, there = connect("here"), connect("there", dbname=database)
    for session in (here, there):
        session.execute(TAKE)
    finding = soon(watch(Job("nightly")), "same-key-two-databases")
    assert finding.severity == "info"
    assert (finding.job, finding.key, finding.pid, finding.database) == ("nightly", NIGHTLY, None, None)
    assert finding.summary.startswith("nightly is held in 2 databases: ")
    assert f"postgres: pid {here.info.backend_pid} (postgres, here)" in finding.evidence
    assert f"{database}: pid {there.info.backend_pid} (postgres, there)" in finding.evidence
    assert finding.suggestion.endswith(": pglock-inspect ls")


def test_a_namespace_is_told_of_once(database: str, connect: Connect, watch: Watch) -> None:
    connect().execute("SELECT pg_advisory_lock(7, n) FROM generate_series(1, 5) AS n")
    connect(dbname=database).execute("SELECT pg_advisory_lock(7, n) FROM generate_series(3, 7) AS n")
    finding = soon(watch(Job("tenants", first=7)), "same-key-two-databases")
    assert (finding.job, finding.key) == ("tenants", None)
    assert [len(keys) for _, keys in finding.about] == [3, 3]


def test_other_keys_or_other_forms_in_two_databases_are_nothing(
    database: str, connect: Connect, watch: Watch
) -> None:
    here, there = connect(), connect(dbname=database)
    here.execute(f"{TAKE}, pg_advisory_lock(7, 1), pg_advisory_lock((7::bigint << 32) + 2)")
    there.execute(
        "SELECT pg_advisory_lock(hashtext('weekly')), pg_advisory_lock(7, 2), pg_advisory_lock(4242)"
    )
    unnamed = "SELECT pg_advisory_lock(999)"  # nobody says that both mean the same
    here.execute(unnamed)
    there.execute(unnamed)
    jobs = (Job("nightly"), Job("weekly"), Job("tenants", first=7))
    report = watch(*jobs, Job("wide", key=AdvisoryKey(7, 2, 1))).poll()
    assert (len(locks_of(report, here)), len(locks_of(report, there))) == (4, 4)
    assert not found(report, "same-key-two-databases")


def test_two_jobs_whose_names_have_one_hash_collide(connect: Connect, watch: Watch) -> None:
    holder, other = connect(), connect()
    holder.execute("SELECT pg_advisory_lock(hashtext('job-5108'))")
    answer = other.execute("SELECT pg_try_advisory_lock(hashtext('job-23316'))").fetchone()
    assert answer == (False,)
    finding = soon(watch(Job("job-23316"), Job("job-5108"), Job("nightly")), "collision")
    assert finding.severity == "warning"
    assert finding.key == AdvisoryKey.from_bigint(-593817387)
    assert (finding.job, finding.pid, finding.database) == ("job-23316", None, None)
    assert finding.summary == "job-23316 and job-5108 have the same key: they exclude each other"
    assert finding.evidence == "key -593817387 (job-23316: hashtext, job-5108: hashtext)"
    assert "pglock-inspect key job-5108" in finding.suggestion


def test_a_collision_in_one_database_names_it(watch: Watch) -> None:
    key = key_of("nightly", "hashtext")
    finding = soon(watch(Job("nightly", database="postgres"), Job("report", key=key)), "collision")
    assert finding.database == "postgres"
    assert (
        finding.summary
        == "nightly and report have the same key in database postgres: they exclude each other"
    )
    assert finding.evidence.endswith("(nightly: hashtext, report: its key)")


def test_names_that_meet_nowhere_do_not_collide(watch: Watch) -> None:
    jobs = (
        Job("job-5108", database="postgres"),
        Job("job-23316", database="elsewhere"),
        Job("nightly"),
        Job("nightly", database="postgres"),
        Job("job-30387"),
        Job("job-126573", scheme="hashtextextended"),
    )
    assert not found(watch(*jobs).poll(), "collision")


def test_a_key_without_a_name_is_told_of(connect: Connect, watch: Watch) -> None:
    worker = connect("psql")
    worker.execute("SELECT pg_advisory_lock(-20270115)")
    finding = soon(watch(), "unnamed", database="postgres")
    pid = worker.info.backend_pid
    assert finding.severity == "info"
    assert (finding.job, finding.pid, finding.key) == (None, pid, AdvisoryKey.from_bigint(-20270115))
    assert finding.summary == (
        f"key -20270115 in database postgres, held by pid {pid} (postgres, psql), has no name"
    )
    assert finding.evidence == "1 unnamed in database postgres"
    assert finding.suggestion == (
        "see what is known of it: pglock-inspect identify -20270115; "
        "configure a job with a name and key = -20270115"
    )


def test_all_keys_without_a_name_are_told_of_at_once(connect: Connect, watch: Watch) -> None:
    for number in (1, 2):
        connect().execute("SELECT pg_advisory_lock(%s, n) FROM generate_series(1, %s) AS n", [number, number])
    finding = soon(watch(), "unnamed", database="postgres")
    assert (finding.pid, finding.key) == (None, None)
    assert finding.summary == "3 locks in database postgres, held by 2 holders, have no name"


def test_configured_and_learned_names_are_names(connect: Connect, watch: Watch) -> None:
    configured, learned, pair = connect(), connect(), connect()
    configured.execute("SELECT pg_advisory_lock(hashtext($$nightly$$))")
    learned.execute("SELECT pg_advisory_lock(hashtext('weekly'))")
    pair.execute("SELECT pg_advisory_lock(7, 20270115)")
    report = watch(Job("nightly"), Job("tenants", first=7)).poll()
    names = [lock_of(report, session).name for session in (configured, learned, pair)]
    assert [name and name.text for name in names] == ["nightly", "weekly", "tenants"]
    assert not found(report, "unnamed")

"""What goes wrong: each is made when its block begins, and mended when it ends."""

from __future__ import annotations

import subprocess
import threading
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest

from tests.support.requirements import program
from tests.support.waiting import wait_until
from tests.system.faults.places import ROLE, WRONG_BY, is_up
from tests.system.faults.stage import OBSERVERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.servers import Connection
    from tests.system.faults.places import ClockStage, PoolerStage, ProxyStage, TwoHostsStage
    from tests.system.faults.stage import Stage


@contextmanager
def nothing(_: Stage) -> Iterator[None]:
    """Have it be as it has been from the start."""
    yield


@contextmanager
def stop(stage: Stage) -> Iterator[None]:
    stage.server.stop("fast")
    yield
    stage.server.start()


@contextmanager
def stop_at_once(stage: Stage) -> Iterator[None]:
    stage.server.stop("immediate")
    yield
    stage.server.start()


@contextmanager
def kill(stage: Stage) -> Iterator[None]:
    stage.server.kill()
    yield
    stage.server.start()


@contextmanager
def crash(stage: Stage) -> Iterator[None]:
    killed = set[int]()

    def kill_a_process() -> None:
        for process in _checkpointers(stage):
            killed.add(process.pid)
            process.kill()

    with _again_and_again(kill_a_process, 0.02):  # a recovery takes less time than a look at it
        yield
    # The last crash may not have been noticed yet.
    wait_until(lambda: {each.pid for each in _checkpointers(stage)} - killed, "it recovers")
    wait_until(lambda: is_up(stage), "it has recovered")


@contextmanager
def fail_over(stage: TwoHostsStage) -> Iterator[None]:
    stage.server.stop("immediate")
    yield
    with psycopg.connect(stage.standby.dsn(), autocommit=True) as connection:
        connection.execute("SELECT pg_promote()")


@contextmanager
def terminate(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    with _again_and_again(lambda: _terminate(admin), 0.3):
        yield


@contextmanager
def drop_packets(stage: Stage) -> Iterator[None]:
    rule = ["INPUT", "-i", "lo", "-p", "tcp", "--dport", str(stage.server.port), "-j", "DROP"]
    iptables = program("iptables")
    subprocess.run([iptables, "-w", "-I", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run([iptables, "-w", "-D", *rule], check=True)


@contextmanager
def answer_nothing(stage: ProxyStage) -> Iterator[None]:
    stage.proxy.frozen = True
    yield
    stage.proxy.frozen = False


@contextmanager
def delay_packets(stage: ProxyStage) -> Iterator[None]:
    stage.proxy.delay = 0.1
    yield
    stage.proxy.delay = 0.0


@contextmanager
def stop_pooler(stage: PoolerStage) -> Iterator[None]:
    stage.pooler.__exit__(None, None, None)
    yield
    stage.pooler = stage.pooler_again()
    stage.pooler.__enter__()


@contextmanager
def take_all_connections(stage: Stage) -> Iterator[None]:
    stage.admin().execute("CREATE ROLE app LOGIN")
    with ExitStack() as opened:
        with suppress(psycopg.OperationalError):
            while True:
                opened.enter_context(psycopg.connect(stage.server.dsn(user="app")))
        yield


@contextmanager
def limit_the_role(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    admin.execute("ALTER ROLE watch CONNECTION LIMIT 3")
    yield
    admin.execute("ALTER ROLE watch CONNECTION LIMIT -1")


@contextmanager
def take_all_locks(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    with pytest.raises(psycopg.errors.OutOfMemory):
        _take_locks(admin, 1_000_000)
    yield
    admin.execute("SELECT pg_advisory_unlock_all()")


@contextmanager
def fill_the_disk(stage: Stage) -> Iterator[None]:
    """Leave no room for temporary files, and much to read."""
    place = stage.server.directory / "data/base/pgsql_tmp"
    place.mkdir(exist_ok=True)
    owner = place.parent.stat()
    options = f"size=4k,mode=700,uid={owner.st_uid},gid={owner.st_gid}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], check=True)
    try:
        (place / "full").write_bytes(bytes(4096))
        admin = stage.admin()
        _take_locks(admin, 5_000)
        admin.execute("SET work_mem = '64kB'")
        with pytest.raises(psycopg.errors.DiskFull):
            admin.execute("SELECT count(*) FROM generate_series(1, 100000)")
        yield
        admin.execute("SELECT pg_advisory_unlock_all()")
    finally:
        subprocess.run(["umount", place], check=True)


@contextmanager
def lock_pg_authid(stage: Stage) -> Iterator[None]:
    with psycopg.connect(stage.server.dsn()) as vandal:
        vandal.execute("LOCK TABLE pg_authid")
        yield
        vandal.rollback()


@contextmanager
def step_forward(stage: ClockStage) -> Iterator[None]:
    stage.set_clock(WRONG_BY)
    yield
    stage.set_clock(0)


@contextmanager
def step_back(stage: ClockStage) -> Iterator[None]:
    stage.set_clock(-WRONG_BY)
    yield
    stage.set_clock(0)


@contextmanager
def change_the_password(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    admin.execute("ALTER ROLE watch PASSWORD 'new'")
    _terminate(admin)
    yield
    admin.execute("ALTER ROLE watch PASSWORD 'old'")


@contextmanager
def drop_the_role(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    admin.execute("DROP ROLE watch")
    yield
    admin.execute(ROLE)


@contextmanager
def drop_the_role_of_the_worker(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    admin.execute("DROP ROLE app")
    yield
    admin.execute("CREATE ROLE app LOGIN")


@contextmanager
def drop_the_database(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    admin.execute("DROP DATABASE app WITH (FORCE)")
    yield
    admin.execute("CREATE DATABASE app")


@contextmanager
def revoke_pg_monitor(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    admin.execute("REVOKE pg_monitor FROM watch")
    yield
    admin.execute("GRANT pg_monitor TO watch")


@contextmanager
def revoke_execute(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    admin.execute("REVOKE EXECUTE ON FUNCTION pg_lock_status() FROM PUBLIC")
    yield
    admin.execute("GRANT EXECUTE ON FUNCTION pg_lock_status() TO PUBLIC")


@contextmanager
def stop_tracking(stage: Stage) -> Iterator[None]:
    admin = stage.admin()
    worker = stage.worker.info.backend_pid

    def is_untracked() -> bool:
        stage.worker.execute("SELECT 1")  # it reads its settings when it is asked something
        return admin.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", [worker]).fetchone() == (
            "disabled",
        )

    admin.execute("ALTER SYSTEM SET track_activities = off")
    admin.execute("SELECT pg_reload_conf()")
    wait_until(is_untracked, "it is no longer tracked")
    yield
    admin.execute("ALTER SYSTEM RESET track_activities")
    admin.execute("SELECT pg_reload_conf()")
    wait_until(lambda: not is_untracked(), "it is tracked again")


@contextmanager
def _again_and_again(do: Callable[[], object], pause: float) -> Iterator[None]:
    over = threading.Event()

    def run() -> None:
        while not over.wait(pause):
            do()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _checkpointers(stage: Stage) -> Iterator[psutil.Process]:
    for process in psutil.Process(stage.server.pid).children():
        with suppress(psutil.Error):  # it is gone meanwhile
            if "checkpointer" in " ".join(process.cmdline()):
                yield process


def _terminate(admin: Connection) -> None:
    admin.execute(f"SELECT pg_terminate_backend(pid) {OBSERVERS}".encode())


def _take_locks(admin: Connection, number: int) -> None:
    admin.execute("SELECT count(pg_advisory_lock(n)) FROM generate_series(1, %s) AS n", [number])

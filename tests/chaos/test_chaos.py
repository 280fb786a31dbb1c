"""Eight processes race for one job while all that can break does, and a witness sees who is deceived."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.chaos import server_log
from tests.chaos.judge import judge, read_witness
from tests.chaos.monkey import LONG, QUICK, Monkey
from tests.chaos.troop import KINDS, Troop
from tests.chaos.witness import SCHEMA, connect
from tests.support.servers import major_version
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.chaos.judge import Verdict
    from tests.chaos.monkey import Act
    from tests.chaos.witness import Connection
    from tests.support.servers import StartServer

_LOCKS = "SELECT pid, classid, objid, objsubid FROM pg_locks WHERE locktype = 'advisory'"


@pytest.fixture
def seed() -> int:
    """Of chance: new each time, or that of a run that is to be repeated, as far as processes can be."""
    return int(os.environ.get("PGLOCK_CHAOS_SEED") or random.randrange(2**32))


def short(chance: random.Random) -> Iterator[Act]:
    yield from chance.sample(acts := [*QUICK, chance.choice(LONG)], len(acts))


def long(chance: random.Random) -> Iterator[Act]:
    while True:
        acts = [act for act in QUICK for _ in range(act.times)] + chance.sample(LONG, 2)
        yield from chance.sample(acts, len(acts))


@pytest.mark.parametrize(
    ("rounds", "acts"),
    [
        pytest.param(30, short, id="short"),
        pytest.param(500, long, id="long", marks=pytest.mark.slow),
    ],
)
def test_nobody_is_deceived(
    *,
    rounds: int,
    acts: Callable[[random.Random], Iterator[Act]],
    seed: int,
    start_server: StartServer,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    started, chance, done = time.monotonic(), random.Random(seed), Counter[str]()
    harmed, unharmed = start_server(server_log.SETTINGS), start_server()
    with connect(unharmed.dsn()) as witness:
        witness.execute(SCHEMA.encode())
        with Troop(harmed.dsn(connect_timeout=3), unharmed.dsn(), witness, tmp_path, seed) as troop:
            monkey = Monkey(harmed, troop, chance)
            for act in acts(chance):
                act.do(monkey)
                done[act.name] += 1
                time.sleep(chance.uniform(0, 0.2))
                assert not troop.crashes, troop.crashes[0]
                if acts is long and began(witness) >= rounds:
                    break
            wait_until(lambda: began(witness) >= rounds, f"{rounds} rounds", timeout=60)
            troop.finish()
            with psycopg.connect(harmed.dsn()) as admin:
                left = admin.execute(_LOCKS).fetchall()
            troop.dismiss()
        verdict = judge(read_witness(witness), server_log.read_log(harmed.logfile))
        counted = began(witness)
    record_property(
        "counted",
        f"PostgreSQL {major_version()}, seed {seed}: {counted} rounds in {time.monotonic() - started:.0f} s "
        f"by {troop.processes} processes, {len(left)} locks left behind\n"
        f"{table('done to them', done)}\n{described(verdict)}",
    )
    assert not troop.crashes, troop.crashes[0]
    assert not verdict.wrongs, "\n".join([f"seed {seed}:", *verdict.wrongs])
    assert not left
    assert verdict.counts["went on beside another, since"].total() > rounds / 20  # it was chaos
    assert acts is short or verdict.counts["runs of"].keys() == {*KINDS}


def began(witness: Connection) -> int:
    (runs,) = witness.execute("SELECT count(*) FROM run").fetchone() or (0,)
    return int(runs)


def described(verdict: Verdict) -> str:
    lines = [table(title, counts) for title, counts in sorted(verdict.counts.items())]
    told = f"owned connections and `run` were told within {verdict.slowest:.2f} s of their own running time"
    return "\n".join([*lines, told])


def table(title: str, counts: Counter[str]) -> str:
    return f"{title}: {counts.total()}\n" + "\n".join(f"  {n:4} {what}" for what, n in counts.most_common())

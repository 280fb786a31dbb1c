"""The troop: eight places, each with a process that races for the job, and a proxy on its way.

Two of them are `run`'s, the others those of workers.
"""

from __future__ import annotations

import random
import sys
import threading
from contextlib import suppress
from itertools import cycle
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Self

from psycopg.conninfo import make_conninfo

from tests.chaos.witness import JOB, KILL_AFTER, conclude
from tests.support.command import environment
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import signal
    from pathlib import Path

    from tests.chaos.witness import Connection

LIBRARY = [
    f"{side} {ownership} {level}"
    for side in ("sync", "async")
    for ownership in ("borrowed", "owned")
    for level in ("session", "xact")
]
RUN = ["run session", "run xact"]
KINDS = LIBRARY + RUN

# What exit codes say of a run that the process did not conclude itself.
_ENDS = {0: "done", -9: "killed"}
_ENDS_OF_RUN = {
    **_ENDS,
    69: "raised: no lock to be had",
    76: "lost: ended by `run`",
    -2: "interrupted",
    130: "interrupted",
    137: "killed",
}


class Place(threading.Thread):
    """One worker, and the next when that has ended. `life` begins the names of the present one's sessions."""

    process: Popen[str]
    kind = life = said = ""

    def __init__(self, troop: Troop, number: int) -> None:
        super().__init__()
        self.proxy = Proxy(troop.dsn)
        self._troop, self._number = troop, number
        self._kinds = troop.kinds_of_run if number > 6 else troop.kinds_of_library

    @property
    def ready(self) -> bool:
        """Whether there is a process that expects signals."""
        return self.said == "ready" and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        process = self.process  # by the time it is seen to be ready, another one may have its place
        if self.said == "ready":
            process.send_signal(number)

    @property
    def idle(self) -> bool:
        return self.said == "idle" or not self.is_alive()

    def run(self) -> None:
        lives = 0
        while not self._troop.over:
            lives += 1
            self.said, self.kind = "", next(self._kinds)
            self.life = f"{self._troop.seed}.{self._number}.{lives}"
            self._live()

    def _live(self) -> None:
        troop, file = self._troop, self._troop.directory / f"{self.life}.txt"
        with file.open("w", encoding="utf-8") as errors:
            self.process = Popen(
                [sys.executable, "-m", *self._command()],
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                text=True,
                env=troop.environment,
            )
        with self.process:
            assert self.process.stdout
            for line in self.process.stdout:
                self.said = line.strip()
        code, said = self.process.returncode, file.read_text("utf-8")
        if self.kind in RUN:
            # A program that is not yet Python to the full ends with 1 at Ctrl-C.
            end = _ENDS_OF_RUN.get(130 if said.endswith("KeyboardInterrupt\n") else code)
        else:
            end = _ENDS.get(code)
        if not end:
            troop.crashes.append(f"{self.kind} ended with {code}: {said}")
        conclude(troop.witness, f"{self.life}.%", end or "crashed")
        troop.processes += 1

    def _command(self) -> list[str]:
        witness_dsn, session = self._troop.witness_dsn, f"{self.life}.0"
        if not self.kind.startswith("run"):
            return ["tests.chaos.worker", self.proxy.dsn, witness_dsn, self.kind, self.life]
        dsn = make_conninfo(self.proxy.dsn, application_name=session)
        options = ["--wait=30s", f"--kill-after={KILL_AFTER}s", *(["--xact"] if "xact" in self.kind else [])]
        program = [sys.executable, "-m", "tests.chaos.program", witness_dsn, self.kind, session]
        return ["tests.chaos.hurried", "run", "--dsn", dsn, *options, JOB, "--", *program]


class Troop:
    """A context manager. `dsn` is of the server that is harmed; `crashes` tells of workers that failed."""

    def __init__(self, dsn: str, witness_dsn: str, witness: Connection, directory: Path, seed: int) -> None:
        self.dsn, self.witness_dsn, self.witness, self.directory = dsn, witness_dsn, witness, directory
        self.seed = seed
        mine = environment(directory)  # but for what would measure the coverage of processes that are killed
        self.environment = {name: value for name, value in mine.items() if not name.startswith("COV")}
        self.over = False
        self.crashes: list[str] = []
        self.processes = 0
        chance = random.Random(seed)
        self.kinds_of_library = cycle(chance.sample(LIBRARY, len(LIBRARY)))
        self.kinds_of_run = cycle(RUN)
        self.places = [Place(self, number) for number in range(1, 9)]

    def __enter__(self) -> Self:
        for place in self.places:
            place.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        for place in self.places:
            with suppress(AttributeError):  # it has not begun
                place.process.kill()
        for place in self.places:
            place.join()
            place.proxy.__exit__()

    def place_of(self, session: str) -> Place | None:
        """Return the place of the worker that has a session of this name, if it is still there."""
        return next((place for place in self.places if session.startswith(f"{place.life}.")), None)

    def finish(self) -> None:
        """Have each worker finish what it is at; those with a connection keep it open."""
        self.over = True
        self.witness.execute("UPDATE control SET over = true")
        wait_until(lambda: all(place.idle for place in self.places), "all workers are idle", timeout=120)

    def dismiss(self) -> None:
        for place in self.places:
            assert place.process.stdin
            place.process.stdin.close()
            place.join()

"""The program under `run`: a run that is told by SIGTERM, and ends, or has to be killed."""

from __future__ import annotations

import random
import signal
import sys
import time

from tests.chaos.witness import STEP, Run, connect


def main(witness_dsn: str, kind: str, session: str) -> None:
    chance = random.Random(session)
    told = False

    def tell(*_: object) -> None:
        nonlocal told
        told = True

    signal.signal(signal.SIGTERM, tell)
    stubborn = chance.random() < 0.5
    run = Run(connect(witness_dsn), kind, session, chance.randint(1, 8))
    while run.goes_on() or (told and stubborn):
        time.sleep(STEP)
        if told:
            run.tell()
    run.end()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""The witness: tables on a server that no chaos touches, where each run says when it began, lived and ended.

All times are that server's clock, which the harmed server on the same machine shares.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from pglock_inspect import LockLost

Connection = psycopg.Connection[tuple[Any, ...]]

JOB = "send_daily_digest"
STEP = 0.02  # seconds that a run sleeps after each step: so many steps, so much running time at least

# The times of the helper and of `run`, in seconds; in earnest they are 5, 5, 5, 10 and 30.
BEAT = 1.0
DEADLINE = 1.0
SLACK = 2.5
KILL_AFTER = 1.0
LEASE = 8.0

SCHEMA = """
CREATE TABLE run (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text NOT NULL,
    session text NOT NULL,  -- the application_name of what holds the lock
    pid int NOT NULL,       -- of the process that does the job
    began timestamptz NOT NULL DEFAULT clock_timestamp(),
    told timestamptz,       -- that the lock is lost
    ended timestamptz,      -- by the job itself, as its last act
    outcome text            -- what came out in the end
);
CREATE TABLE step (run int NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE INDEX ON step (run);
CREATE TABLE stop (  -- of a worker, by the chaos
    life text NOT NULL,       -- how its sessions' names begin
    whole boolean NOT NULL,   -- with all processes that descend from it
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    until timestamptz
);
CREATE TABLE dropped (life text NOT NULL);  -- whose connections the chaos dropped
CREATE TABLE control (over boolean NOT NULL, kept int);  -- the run that is to go on until it is told
INSERT INTO control VALUES (false);
"""


def connect(dsn: str) -> Connection:
    return psycopg.connect(dsn, autocommit=True, application_name="witness")


class Run:
    """A run of the job. It lasts so many steps, or longer while it is kept; no longer once it is told."""

    def __init__(self, witness: Connection, kind: str, session: str, steps: int) -> None:
        self._witness = witness
        self._steps = steps
        self._told = False
        begin = "INSERT INTO run (kind, session, pid) VALUES (%s, %s, %s) RETURNING id"
        (self._number,) = self._ask(begin, kind, session, os.getpid())

    def goes_on(self) -> bool:
        """Take a step, and tell whether another follows."""
        self._steps -= 1
        step = "INSERT INTO step (run) VALUES (%s) RETURNING (SELECT kept FROM control)"
        (kept,) = self._ask(step, self._number)
        return not self._told and (self._steps > 0 or kept == self._number)

    def tell(self, _: LockLost | None = None) -> None:
        """Hear that the lock is lost."""
        self._told = True
        self._ask(
            "UPDATE run SET told = coalesce(told, clock_timestamp()) WHERE id = %s RETURNING 1", self._number
        )

    def end(self) -> None:
        self._ask("UPDATE run SET ended = clock_timestamp() WHERE id = %s RETURNING 1", self._number)

    def _ask(self, statement: str, *parameters: object) -> tuple[Any, ...]:
        row = self._witness.execute(statement.encode(), parameters).fetchone()
        assert row
        return row


def conclude(witness: Connection, session: str, outcome: str) -> None:
    """Write down what came out of the run in a session, or in all sessions that a pattern matches."""
    conclude = "UPDATE run SET outcome = %s WHERE session LIKE %s AND outcome IS NULL"
    witness.execute(conclude, [outcome, session])


def say(word: str) -> None:
    """Say how far this process is to the one that started it."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()

"""The job of all examples: today's digest.

The lock keeps runs from overlapping. That a day has one digest, and not one after another, is up to the job:
here, to the primary key.
"""

import os

import psycopg

DSN = os.environ["DATABASE_URL"]
JOB = "send_daily_digest"
EVERY = 5.0  # seconds: what fell due while nothing ran is made up for


def send_digest() -> None:
    with psycopg.connect(DSN) as conn:
        conn.execute("INSERT INTO digests (day) VALUES (current_date) ON CONFLICT DO NOTHING")


def say(*, ran: bool) -> None:
    print(f"{JOB}: {'done' if ran else 'another replica is at it'}", flush=True)

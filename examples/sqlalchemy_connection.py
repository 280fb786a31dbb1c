"""SQLAlchemy: the lock is on the connection that the job works on, so that neither outlives the other."""

from functools import partial

from digest import DSN, JOB, say
from psycopg import connect
from sqlalchemy import Connection, create_engine, text

from pglock_inspect import run_with_lock

engine = create_engine("postgresql+psycopg://", creator=partial(connect, DSN))


def send_digest(connection: Connection) -> None:
    with connection.begin():  # what is not committed when the job ends is rolled back
        connection.execute(text("INSERT INTO digests (day) VALUES (current_date) ON CONFLICT DO NOTHING"))


with engine.connect() as connection:
    psycopg_connection = connection.connection.driver_connection
    say(ran=run_with_lock(psycopg_connection, JOB, lambda: send_digest(connection)))
engine.dispose()

"""Celery: the beat of every replica sends the task, and one worker at a time runs it.

The broker is a directory, so that PostgreSQL is all it takes; with any other broker the task is the same.
"""

import tempfile
from pathlib import Path

from celery import Celery
from digest import DSN, EVERY, JOB, say, send_digest

from pglock_inspect import run_with_lock

queue = Path(tempfile.gettempdir(), "digest-queue")
queue.mkdir(exist_ok=True)

app = Celery("digest", broker="filesystem://")
app.conf.broker_transport_options = dict.fromkeys(
    ("data_folder_in", "data_folder_out", "control_folder"), str(queue)
)
app.conf.beat_scheduler = "celery.beat:Scheduler"  # keeps no file that replicas would have to share
app.conf.beat_schedule = {"digest": {"task": JOB, "schedule": EVERY, "options": {"expires": EVERY}}}


@app.task(name=JOB, ignore_result=True)
def send_digest_once() -> None:
    say(ran=run_with_lock(DSN, JOB, send_digest))

"""Celery: the beat of every replica sends the task, and one worker at a time runs it.

With a broker of yours: `BROKER=redis://… celery -A celery_beat worker --beat`.
"""

import os

from celery import Celery
from celery.beat import EmbeddedService
from digest import DSN, EVERY, JOB, say, send_digest

from pglock_inspect import run_with_lock

app = Celery("digest", broker=os.environ.get("BROKER", "memory://"))
app.conf.beat_scheduler = "celery.beat:Scheduler"  # keeps no file that replicas would have to share
app.conf.beat_schedule = {"digest": {"task": JOB, "schedule": EVERY, "options": {"expires": EVERY}}}


@app.task(name=JOB, ignore_result=True)
def send_digest_once() -> None:
    say(ran=run_with_lock(DSN, JOB, send_digest))


if __name__ == "__main__":  # a broker in memory takes beat and worker in one process
    EmbeddedService(app, thread=True).start()
    app.worker_main(["worker", "--pool=threads"])

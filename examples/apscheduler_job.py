"""APScheduler 3: every replica has a scheduler, and one at a time runs the job."""

from datetime import UTC, datetime

from apscheduler.schedulers.blocking import BlockingScheduler
from digest import DSN, EVERY, JOB, say, send_digest

from pglock_inspect import run_with_lock


def send_digest_once() -> None:
    say(ran=run_with_lock(DSN, JOB, send_digest))


scheduler = BlockingScheduler()
scheduler.add_job(send_digest_once, "interval", seconds=EVERY, next_run_time=datetime.now(UTC))
scheduler.start()

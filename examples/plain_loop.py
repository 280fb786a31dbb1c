"""A loop: start it twice, and one at a time runs the job."""

import time

from digest import DSN, EVERY, JOB, say, send_digest

from pglock_inspect import run_with_lock

while True:
    say(ran=run_with_lock(DSN, JOB, send_digest))
    time.sleep(EVERY)

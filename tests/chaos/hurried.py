"""`pglock-inspect` with the times of the chaos; says "ready" once signals are welcome."""

from __future__ import annotations

import sys

from pglock_inspect import run
from pglock_inspect.__main__ import main
from pglock_inspect.lock import base
from tests.chaos.witness import BEAT, DEADLINE, LEASE, SLACK, say

base.BEAT, base.DEADLINE, base.LEASE, run.SLACK = BEAT, DEADLINE, LEASE, SLACK
say("ready")
sys.exit(main())

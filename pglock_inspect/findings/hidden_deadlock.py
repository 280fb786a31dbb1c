"""``hidden-deadlock``: an index build waits for a waiter whose holder waits outside of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each lock that stands between CREATE INDEX CONCURRENTLY and its end.

    The build waits for every older snapshot; a session that waits for an advisory lock has one. Where the
    lock's holder is idle, nothing in the database can end that circle, and no deadlock is detected.
    """
    for build in scene.snapshot.other_waits:
        if build.locktype != "virtualxid":
            continue
        for waiter in scene.waits:
            if waiter.rows.pid not in scene.snapshot.blocking.get(build.pid, ()):
                continue
            for holder in scene.blockers(waiter):
                if holder.session is None or not holder.session.idle:
                    continue
                subject = waiter.subjects[0]
                yield finding_about(
                    scene,
                    waiter,
                    subject,
                    rule="hidden-deadlock",
                    severity="critical",
                    summary=f"{words.title(waiter, subject)}: an index build (pid {build.pid}) waits for "
                    f"{words.holder(waiter)}, which waits for this lock of {words.holder(holder)}, idle",
                    evidence=f"pid {build.pid} waits for a virtualxid of pid {waiter.rows.pid}; "
                    f"pid {waiter.rows.pid} for {words.title(waiter, subject)} of {words.process(holder)}",
                    suggestion=f"let the index build go on: pglock-inspect kill {waiter.rows.pid} --cancel; "
                    "and wait for such locks with pg_try_advisory_lock in a loop",
                )


HIDDEN_DEADLOCK = Rule("hidden-deadlock", find)

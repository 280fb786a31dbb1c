"""``hidden-deadlock``: an index build waits for a waiter whose holder waits outside of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pglock_inspect.durations import format_duration
from pglock_inspect.findings import words
from pglock_inspect.findings.rule import Rule, finding_about

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pglock_inspect.findings.scene import Scene
    from pglock_inspect.model import Finding, HoldGroup, OtherWait


def find(scene: Scene, _: float) -> Iterator[Finding]:
    """Yield a finding for each lock that stands between CREATE INDEX CONCURRENTLY and its end.

    The build waits for every older snapshot; a session that waits for an advisory lock has one. Where the
    lock's holder is idle, nothing in the database can end that circle, and no deadlock is detected. Only such
    commands wait for a virtualxid, so a build is known by that where its text is hidden.
    """
    blocking, sessions = scene.snapshot.blocking, scene.snapshot.sessions
    for build in scene.snapshot.other_waits:
        if build.locktype != "virtualxid":
            continue
        for waiter in scene.waits:
            if waiter.rows.pid not in blocking.get(build.pid, ()):
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
                    summary=f"{words.title(waiter, subject)}: an index build, "
                    f"{words.process(build.pid, sessions.get(build.pid))}, waits for {words.holder(waiter)}, "
                    f"which waits for this lock of {words.holder(holder)}, {holder.session.state}",
                    evidence=_evidence(scene, build, waiter, holder),
                    suggestion="wait for such locks with pg_try_advisory_lock() in a loop; to let the "
                    f"build go on now: {words.end_waiter(waiter)}",
                )


def _evidence(scene: Scene, build: OtherWait, waiter: HoldGroup, holder: HoldGroup) -> str:
    waits = (
        (f"pid {build.pid} waits", scene.wait_of(build.pid)),
        (f"pid {waiter.rows.pid} waits", scene.wait_of(waiter.rows.pid)),
    )
    idle = scene.age(holder.session.state_change) if holder.session else None
    known = [(text, wait.seconds if wait else None) for text, wait in waits] + [
        (f"pid {holder.rows.pid} idle", idle)
    ]
    return "; ".join(text if age is None else f"{text} for {format_duration(age)}" for text, age in known)


HIDDEN_DEADLOCK = Rule("hidden-deadlock", find)

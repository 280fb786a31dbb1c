"""Each fault, with the watcher, `serve`, `top` and `check` running while it comes and goes."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.waiting import wait_until
from tests.system.faults.faults import FAULTS, OK
from tests.system.faults.observers import observing
from tests.system.faults.page import PAGE, page

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.servers import StartServer
    from tests.system.faults.faults import Fault, Parts
    from tests.system.faults.observers import Checking, Looking, Observers, Serving, Watching
    from tests.system.faults.stage import Stage


def shown(by: Watching | Serving | Looking | Checking, parts: Parts) -> None:
    """Wait until something shows these parts, in this order."""
    pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    last = ""

    def matches() -> bool:
        nonlocal last
        last = by.shows()
        return bool(pattern.search(last))

    try:
        wait_until(matches, f"{type(by).__name__} shows {parts}", timeout=90)
    except AssertionError as error:
        raise AssertionError(f"{error}, but\n{last}") from None


def truth_is_shown(observers: Observers, stage: Stage) -> None:
    """Wait until everybody shows the worker's lock, and `check` finds nothing wrong."""
    shown(observers.watcher, (f"{stage.job} held",))
    shown(observers.serve, ("pglock_up 1", "pglock_job_held 1"))
    shown(observers.top, ("connected", stage.job, str(stage.worker.info.backend_pid)))
    shown(observers.check, OK)


def marked(fault: Fault) -> object:
    marks = [pytest.mark.requires("tmux", *fault.requires)]
    if not fault.quick:
        marks.append(pytest.mark.slow)
    return pytest.param(fault, id=re.sub(r"\W+", "-", fault.name).strip("-").lower(), marks=marks)


@pytest.mark.parametrize("fault", [marked(fault) for fault in FAULTS])
def test_all_show_it_and_recover_and_lose_nothing(
    fault: Fault, start_server: StartServer, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with fault.place(start_server) as stage:
        stage.hold()
        with observing(stage, tmp_path) as observers:
            truth_is_shown(observers, stage)
            watcher, serve = observers.watcher, observers.serve
            before = watcher.failures + serve.failures
            known = watcher.seconds(stage.job)
            serve.forget()

            with fault.act(stage):
                shown(observers.top, fault.shown.top)
                shown(observers.check, fault.shown.check)
                shown(watcher, fault.shown.watcher)
                shown(serve, fault.shown.serve)

            mended, failed = time.monotonic(), (watcher.failures, serve.failures)
            goes_on = stage.is_held()
            if not goes_on:
                stage.hold()
            truth_is_shown(observers, stage)
            seconds = time.monotonic() - mended
            record_property("counted", f"shown again after {seconds:.1f} s, by top and check, too")

            if fault.failures is None:
                assert watcher.failures + serve.failures == before
            else:
                assert watcher.failures - failed[0] <= fault.failures
                assert serve.failures - failed[1] <= fault.failures
            assert goes_on is not fault.ends_holds
            assert serve.value("pglock_job_observed_holds_total") == 1 + fault.ends_holds
            assert serve.value("pglock_job_observed_hold_seconds_count") == fault.ends_holds
            if goes_on and not fault.steps_clock:
                assert watcher.seconds(stage.job) > known
            stage.wait_for_sessions()


def test_the_page_tells_what_is_tested() -> None:
    assert PAGE.read_text("utf-8") == page(), "make docs writes it anew"

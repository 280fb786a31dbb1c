from __future__ import annotations

import threading
import time
from queue import Queue
from typing import TYPE_CHECKING

import pytest

from pglock_inspect.top.polling import Poller
from tests.support.reports import HOLDER, UNREACHABLE, make_report
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pglock_inspect.model import Report

REPORT = make_report(HOLDER)
Start = "Callable[..., Poller]"


@pytest.fixture
def start() -> Iterator[Callable[..., Poller]]:
    pollers: list[Poller] = []

    def start_poller(
        poll: Callable[[], Report], interval: float, *pause: Callable[[float, int], float]
    ) -> Poller:
        pollers.append(Poller(poll, interval, *pause))
        pollers[-1].start()
        return pollers[-1]

    yield start_poller
    for poller in pollers:
        assert poller.stop(patience=10)


def test_tells_report_after_report(start: Callable[..., Poller]) -> None:
    told: Queue[object] = Queue()
    start(lambda: REPORT, 0.001).listen(told.put)
    assert [told.get(timeout=10) for _ in range(3)] == [REPORT] * 3


def test_keeps_the_newest_for_who_listens_later(start: Callable[..., Poller]) -> None:
    polled = threading.Event()

    def poll() -> Report:
        polled.set()
        return REPORT

    poller = start(poll, 1000.0)
    polled.wait(10)
    told: Queue[object] = Queue()
    poller.listen(told.put)
    assert told.get(timeout=10) is REPORT


def test_a_new_interval_counts_at_once(start: Callable[..., Poller]) -> None:
    told: Queue[object] = Queue()
    poller = start(lambda: REPORT, 1000.0)
    poller.listen(told.put)
    told.get(timeout=10)
    poller.interval = 0.001
    told.get(timeout=10)
    assert poller.interval == 0.001


def test_waits_as_told_and_counts_failures_in_a_row(start: Callable[..., Poller]) -> None:
    came = iter([REPORT, UNREACHABLE, UNREACHABLE, REPORT])
    asked: Queue[tuple[float, int]] = Queue()

    def pause(interval: float, failures: int) -> float:
        asked.put((interval, failures))
        return 0.0 if asked.qsize() < 4 else 1000.0

    start(lambda: next(came), 2.0, pause)
    assert [asked.get(timeout=10) for _ in range(4)] == [(2.0, 0), (2.0, 1), (2.0, 2), (2.0, 0)]


def test_an_error_that_no_report_tells_ends_it_and_is_told(start: Callable[..., Poller]) -> None:
    error = RuntimeError("a bug")
    told: Queue[object] = Queue()

    def poll() -> Report:
        raise error

    start(poll, 0.001).listen(told.put)
    assert told.get(timeout=10) is error


def test_an_error_of_the_listener_is_told_too(start: Callable[..., Poller]) -> None:
    told: Queue[object] = Queue()
    reports: Queue[Report] = Queue()

    def listen(came: object) -> None:
        if came is REPORT:
            raise ZeroDivisionError
        told.put(came)

    start(reports.get, 0.001).listen(listen)
    reports.put(REPORT)
    assert isinstance(told.get(timeout=10), ZeroDivisionError)


def test_a_stopped_one_tells_nothing_and_says_whether_it_has_ended() -> None:
    release, told = threading.Event(), list[object]()

    def poll() -> Report:
        release.wait(10)
        return REPORT

    poller = Poller(poll, 0.001)
    poller.start()
    poller.listen(told.append)
    assert not poller.stop(patience=0.01)
    release.set()
    wait_until(poller.stop, "the last poll has ended")
    time.sleep(0.01)
    assert not told


def test_does_work_between_polls_in_its_own_thread_and_at_once(start: Callable[..., Poller]) -> None:
    done: Queue[str] = Queue()
    poller = start(lambda: REPORT, 1000.0)
    poller.do(lambda: done.put(threading.current_thread().name))
    assert done.get(timeout=10) == "poller"
    told: Queue[object] = Queue()
    poller.listen(told.put)
    poller.do(lambda: None)
    assert [told.get(timeout=10) for _ in range(2)] == [REPORT] * 2  # a poll follows it

from __future__ import annotations

from msgspec.structs import replace

from pglock_inspect.top.feed import Feed, Numbers
from pglock_inspect.top.view import Sight
from tests.support.reports import HOLDER, UNREACHABLE, WAITER, make_report

FIRST, SECOND = make_report(HOLDER), make_report(WAITER)


def test_nothing_is_shown_before_the_first_report() -> None:
    feed = Feed("db", now=0.0)
    assert (feed.shown, feed.target, feed.connection(1.0, 2.0)) == (None, "db", "connecting")


def test_the_newest_report_is_shown() -> None:
    feed = Feed("db", now=0.0)
    feed.receive(Sight(FIRST), 1.0)
    feed.receive(Sight(SECOND), 3.0)
    assert feed.shown is SECOND
    assert feed.target == SECOND.target
    assert feed.age(4.0) == 1.0
    assert feed.connection(4.0, 2.0) == "connected"


def test_a_lost_server_leaves_the_last_report_and_its_age() -> None:
    feed = Feed("db", now=0.0)
    feed.receive(Sight(FIRST), 1.0)
    feed.receive(Sight(UNREACHABLE), 11.0)
    assert feed.shown is FIRST
    assert feed.age(12.0) == 11.0
    assert feed.connection(12.0, 2.0) == "lost"
    assert feed.error == UNREACHABLE.error
    feed.receive(Sight(SECOND), 13.0)
    assert (feed.shown, feed.error, feed.connection(13.0, 2.0)) == (SECOND, None, "connected")


def test_a_poll_that_does_not_return_shows_as_silence() -> None:
    feed = Feed("db", now=0.0)
    assert feed.connection(9.0, 2.0) == "silent"
    feed.receive(Sight(FIRST), 10.0)
    assert feed.connection(17.0, 2.0) == "connected"
    assert feed.connection(19.0, 2.0) == "silent"
    assert feed.connection(99.0, 60.0) == "connected"
    assert feed.silence(19.0) == 9.0


def test_a_pause_holds_what_is_shown_and_its_end_shows_the_newest() -> None:
    feed = Feed("db", now=0.0)
    feed.receive(Sight(FIRST), 1.0)
    feed.toggle_pause(2.0)
    feed.receive(Sight(SECOND), 3.0)
    assert feed.shown is FIRST
    assert feed.age(4.0) == 3.0
    feed.toggle_pause(5.0)
    assert feed.shown is SECOND


def test_what_a_failure_lacks_is_no_reason_to_show_it() -> None:
    feed = Feed("db", now=0.0)
    feed.receive(Sight(replace(UNREACHABLE, error=None)), 1.0)
    assert feed.shown is None


def test_remembers_the_numbers_of_the_polls_that_worked() -> None:
    feed = Feed("db", now=0.0)
    for report in (FIRST, UNREACHABLE, SECOND):
        feed.receive(Sight(report), 1.0)
    assert [*feed.trend] == [Numbers(1, 0), Numbers(0, 1)]
    for _ in range(1000):
        feed.receive(Sight(FIRST), 1.0)
    assert len(feed.trend) == 60

from __future__ import annotations

from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Instant, Lock, Report
from pglock_inspect.top.past import Hold, Past, holds_like
from tests.support.reports import HOLDER, NOW, PREPARED, WAITER, make_report

SECOND = 1_000_000


def at(second: int, *locks: Lock) -> Report:
    return replace(make_report(*locks), taken_at=Instant(NOW + second * SECOND))


def test_what_was_there_at_first_is_news_only_when_it_ends() -> None:
    past = Past()
    assert past.note(at(0, HOLDER)) == ()
    assert past.note(at(2, HOLDER)) == ()
    assert past.note(at(4)) == (Hold(HOLDER, None, Instant(NOW + 4 * SECOND)),)
    assert past.note(at(4))[0].seconds == 2520.0


def test_what_is_taken_is_held_until_it_is_gone_and_the_newest_comes_first() -> None:
    past = Past()
    past.note(at(0))
    [held] = past.note(at(2, HOLDER))
    assert (held.taken_at, held.released_at) == (NOW + 2 * SECOND, None)
    newest, before = past.note(at(4, HOLDER, PREPARED))
    assert (newest.lock, before.lock) == (PREPARED, HOLDER)
    newest, before = past.note(at(6, PREPARED))
    assert newest == Hold(HOLDER, Instant(NOW + 2 * SECOND), Instant(NOW + 6 * SECOND))
    assert before.lock == PREPARED


def test_a_hold_of_unknown_age_lasted_as_long_as_it_was_seen() -> None:
    unknown = replace(HOLDER, held=None)
    assert Hold(unknown, Instant(NOW), Instant(NOW + 7 * SECOND)).seconds == 7.0
    assert Hold(unknown, None, Instant(NOW)).seconds is None


def test_waiting_is_not_holding() -> None:
    past = Past()
    past.note(at(0))
    assert past.note(at(2, WAITER)) == ()


def test_remembers_the_last_thousand_alone() -> None:
    past, many = Past(), [replace(HOLDER, key=AdvisoryKey.from_bigint(number)) for number in range(1500)]
    past.note(at(0))
    assert len(past.note(at(2, *many))) == 1000
    past.note(at(4))
    assert len(past.note(at(6))) == 1000


def test_holds_of_the_same_key_in_the_same_database() -> None:
    hold = Hold(HOLDER, NOW)
    others = (Hold(PREPARED, NOW), Hold(replace(HOLDER, database="other"), NOW))
    assert holds_like(WAITER, (hold, *others)) == [hold]

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect import watch
from pglock_inspect.config import Settings
from pglock_inspect.errors import BadConnectionString, ServerFailure
from pglock_inspect.watch import JITTER, LONGEST_BACKOFF, Watcher, pause
from tests.support.polls import SERVER, at, lock_rows, session, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pglock_inspect.model import Snapshot

AWAY = ServerFailure("cannot connect to db:5432: refused; check it", "connect")
SLOW = ServerFailure("cannot read the server at db:5432: statement timeout; wait", "timeout")


class Servers:
    """Stands in for the reader: each answer is a snapshot or a failure, to connecting or to reading."""

    def __init__(
        self, *answers: Snapshot | ServerFailure, lost_by: Sequence[ServerFailure] = (AWAY,)
    ) -> None:
        self.answers = list(answers)
        self.lost_by = lost_by
        self.sessions = 0
        self.closed = 0

    def __call__(self, _: str, *, clock: Callable[[], float]) -> Servers:
        del clock
        if isinstance(failure := self.answers[0], ServerFailure):
            self.answers.pop(0)
            raise failure
        self.sessions += 1
        self.target, self.usable, self.connection = "db:5432", True, None
        return self

    def read(self) -> Snapshot:
        answer = self.answers.pop(0)
        if isinstance(answer, ServerFailure):
            self.usable = answer not in self.lost_by
            raise answer
        return answer

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def watcher_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Servers], Watcher]:
    class NoLookups:
        problem = None

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def ask(self, *_: object) -> None:
            pass

    def make(servers: Servers) -> Watcher:
        monkeypatch.setattr(watch, "Reader", servers)
        monkeypatch.setattr(watch, "Lookups", NoLookups)
        return Watcher("host=db", Settings())

    return make


def busy(seconds: float, **server: object) -> Snapshot:
    """A poll that shows one lock of a session of whose age nothing is known but what polls tell."""
    return snapshot(
        seconds,
        lock_rows(1, 7),
        sessions=[session(1, "active", backend_start=None, query="SELECT pg_advisory_lock(7)")],
        server=replace(SERVER, **server),
    )


def test_one_session_is_kept_from_poll_to_poll(watcher_of: Callable[[Servers], Watcher]) -> None:
    servers = Servers(busy(0), busy(2), busy(4))
    with watcher_of(servers) as watcher:
        reports = [watcher.poll() for _ in range(3)]
    assert [report.error for report in reports] == [None, None, None]
    assert (servers.sessions, servers.closed) == (1, 1)
    assert [report.locks[0].held and report.locks[0].held.seconds for report in reports] == [None, 2, 4]


def test_a_server_that_is_away_is_reported_and_found_again(watcher_of: Callable[[Servers], Watcher]) -> None:
    servers = Servers(AWAY, busy(0), AWAY, AWAY, busy(6))
    watcher = watcher_of(servers)
    reports = [watcher.poll() for _ in range(5)]
    assert [report.failure for report in reports] == ["connect", None, "connect", "connect", None]
    assert [report.server is None for report in reports] == [True, False, True, True, False]
    assert reports[0].error == str(AWAY)
    assert (reports[0].locks, reports[0].totals, reports[0].findings) == ((), {}, ())
    assert (servers.sessions, servers.closed) == (2, 1)
    first, working, second, third, again = (report.failing_since for report in reports)
    assert (first, working, again) == (reports[0].taken_at, None, None)
    assert second == third == reports[2].taken_at
    # Nothing says that the lock was released while nobody looked.
    assert reports[4].locks[0].held
    assert reports[4].locks[0].held.seconds == 6


def test_a_session_that_survives_a_failure_is_kept(watcher_of: Callable[[Servers], Watcher]) -> None:
    servers = Servers(busy(0), SLOW, busy(4))
    watcher = watcher_of(servers)
    assert [watcher.poll().failure for _ in range(3)] == [None, "timeout", None]
    assert (servers.sessions, servers.closed) == (1, 0)


@pytest.mark.parametrize("came_back_as", ["restarted", "another server"])
def test_after_a_restart_nothing_of_before_counts(
    watcher_of: Callable[[Servers], Watcher], came_back_as: str
) -> None:
    started_at = at(5 if came_back_as == "restarted" else -9000)
    watcher = watcher_of(Servers(busy(0), busy(2), AWAY, busy(6, started_at=started_at)))
    reports = [watcher.poll() for _ in range(4)]
    assert reports[1].locks[0].held
    assert reports[1].locks[0].held.evidence == "observed"
    last = reports[3].locks[0].held
    assert last
    assert (last.seconds, last.at_most, last.evidence) == (None, None, "none")


def test_a_target_has_the_name_it_was_given_or_where_it_was_reached(
    watcher_of: Callable[[Servers], Watcher],
) -> None:
    watcher = watcher_of(Servers(busy(0), busy(2)))
    assert watcher.target == "db:5432"
    assert watcher.poll().target == "db:5432"
    named = Watcher("host=db", Settings(), target="prod")
    assert named.poll().target == "prod"


def test_a_bad_connection_string_is_told_at_once() -> None:
    with pytest.raises(BadConnectionString):
        Watcher("hots=db", Settings())


def test_between_reports_it_sleeps_longer_while_the_server_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(watch, "Reader", Servers(busy(0), AWAY, AWAY, AWAY, AWAY, AWAY, busy(9), busy(11)))
    watcher = Watcher("host=db", Settings(interval=2.0), sleep=slept.append, random=lambda: 0.5)
    monkeypatch.setattr(watch, "Lookups", lambda *_, **__: None)
    reports = list(islice(watcher.reports(), 8))
    assert [report.failure for report in reports] == [None, *["connect"] * 5, None, None]
    assert slept == [2, 4, 8, 16, 30, 30, 2]


def test_an_interval_of_ones_own_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(watch, "Reader", Servers(busy(0), busy(9)))
    monkeypatch.setattr(watch, "Lookups", lambda *_, **__: None)
    watcher = Watcher("host=db", Settings(interval=2.0), sleep=slept.append, random=lambda: 0.5)
    list(islice(watcher.reports(0.25), 2))
    assert slept == [0.25]


INTERVALS = st.floats(0.1, 3600)
CHANCES = st.floats(0, 1, exclude_max=True)


@given(interval=INTERVALS, failures=st.integers(0, 10_000), chance=CHANCES)
def test_a_pause_is_never_much_shorter_than_the_interval_nor_endless(
    interval: float, failures: int, chance: float
) -> None:
    seconds = pause(interval, failures, chance)
    assert interval * (1 - JITTER) <= seconds <= max(interval, LONGEST_BACKOFF) * (1 + JITTER)


@given(interval=INTERVALS, chance=CHANCES)
def test_polls_never_keep_step_with_a_job(interval: float, chance: float) -> None:
    assert pause(interval, 0, chance) == pytest.approx(interval * (0.9 + 0.2 * chance))


@given(interval=INTERVALS, failures=st.integers(0, 100))
def test_more_failures_never_mean_a_shorter_pause(interval: float, failures: int) -> None:
    assert pause(interval, failures, 0.5) <= pause(interval, failures + 1, 0.5)

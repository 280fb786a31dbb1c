"""The judge of the chaos sees each way to break a promise."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chaos.judge import Run, Stop, judge
from tests.chaos.server_log import CONNECTION_BROKE, LEASE_RAN_OUT, Session

TERMINATED = "it was terminated"


def run(number: int, began: float, ended: float, *, told: float | None = None, **other: Any) -> Run:  # noqa: ANN401
    """A run whose session has its number, and that takes 40 steps in a second."""
    steps = [began + step / 40 for step in range(1, int((ended - began) * 40))]
    how = {"kind": "sync owned session", "outcome": "lost", "dropped": False, "stops": [], **other}
    return Run(number=number, session=str(number), began=began, told=told, ended=ended, steps=steps, **how)


def session(*statements: float, released: float | None = None, ended: float, reason: str = "") -> Session:
    releases = [] if released is None else [released]
    return Session([*statements, *releases], releases, ended, reason)


def wrongs(first: Run, its_session: Session) -> list[str]:
    """Judge a run that another follows 10 seconds after it began."""
    second = run(2, 10, 11, outcome="done")
    sessions = {"1": its_session, "2": session(0, released=11, ended=12)}
    return judge([first, second], sessions).wrongs


@pytest.mark.parametrize(
    ("first", "its_session"),
    [
        pytest.param(run(1, 0, 9, outcome="done"), session(0, released=9.1, ended=12), id="in turn"),
        pytest.param(run(1, 0, 11, told=10.9), session(0, ended=9, reason=TERMINATED), id="told"),
        pytest.param(
            run(1, 0, 20, told=19, stops=[Stop(whole=True, at=9, until=18.5)]),
            session(0, ended=9, reason=LEASE_RAN_OUT),
            id="told when it went on",
        ),
        pytest.param(
            run(1, 0, 11, kind="run xact", dropped=True),
            session(0, ended=9, reason=CONNECTION_BROKE),
            id="dropped",
        ),
    ],
)
def test_what_is_right(first: Run, its_session: Session) -> None:
    assert wrongs(first, its_session) == []


@pytest.mark.parametrize(
    ("first", "its_session", "wrong"),
    [
        (run(1, 0, 11), session(0, 12, ended=13), "was not lost"),
        (run(1, 0, 11), session(0, released=5, ended=9), "was not lost"),
        (run(1, 0, 11, outcome="done"), session(0, ended=9), "left believing"),
        (run(1, 0, 9, outcome="raised AdminShutdown"), session(0, ended=9), "did not end as it should"),
        (run(1, 0, 20), session(0, ended=9, reason=TERMINATED), "went on for"),
        (
            run(1, 0, 20, told=19, stops=[Stop(whole=True, at=9, until=12)]),
            session(0, ended=9),
            "went on for",
        ),
        (run(1, 0, 11, kind="run session"), session(0, ended=9, reason=LEASE_RAN_OUT), "before its lease"),
        (run(1, 0, 11, kind="run session"), session(0, ended=9, reason=CONNECTION_BROKE), "let go of"),
    ],
)
def test_what_is_wrong(first: Run, its_session: Session, wrong: str) -> None:
    (said,) = wrongs(first, its_session)
    assert wrong in said

"""Whom the server is asked about: as few as possible, since each answer locks the lock table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pglock_inspect.model import OtherWait
from pglock_inspect.postgres.queue import ask_who_blocks
from tests.support.polls import lock_rows, waiting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg


class Cursor:
    """Answers like a server where these processes block others; keeps what it was asked."""

    def __init__(self, blocking: Mapping[int, Sequence[int]]) -> None:
        self.blocking = blocking
        self.asked: list[list[int]] = []

    def execute(self, _: str, parameters: tuple[list[int]]) -> None:
        self.asked.append(parameters[0])

    def fetchall(self) -> list[tuple[int, list[int]]]:
        return [(pid, [*self.blocking.get(pid, ())]) for pid in self.asked[-1]]


def ask(cursor: Cursor, *arguments: Any) -> Mapping[int, tuple[int, ...]]:  # noqa: ANN401
    return ask_who_blocks(cast("psycopg.Cursor[Any]", cursor), *arguments)


def test_nobody_is_asked_about_a_lone_waiter() -> None:
    cursor = Cursor({2: [1]})
    assert ask(cursor, [lock_rows(1, 7, 8), waiting(2, 7), waiting(3, 8)], []) == {}
    assert ask(cursor, [lock_rows(1, 7)], [OtherWait(5, "relation", "ShareLock")]) == {}
    assert not cursor.asked


def test_a_queue_of_several_is_asked_about() -> None:
    cursor = Cursor({2: [1], 3: [1, 2, 2]})
    assert ask(cursor, [lock_rows(1, 7), waiting(2, 7), waiting(3, 7)], []) == {2: (1,), 3: (1, 2)}
    assert cursor.asked == [[2, 3]]


def test_a_blocked_holder_is_followed_to_its_root() -> None:
    cursor = Cursor({1: [5], 5: [6], 6: [0, 9]})
    waits = [OtherWait(pid, "relation", "ShareLock") for pid in (1, 5, 6)]
    assert ask(cursor, [lock_rows(1, 7)], waits) == {1: (5,), 5: (6,), 6: (0, 9)}
    assert cursor.asked == [[1], [5], [6]]


def test_a_circle_ends() -> None:
    cursor = Cursor({1: [2], 2: [1]})
    locks = [lock_rows(1, 7), lock_rows(2, 8), waiting(1, 8), waiting(2, 7)]
    assert ask(cursor, locks, []) == {1: (2,), 2: (1,)}


def test_a_crowd_does_not_keep_from_asking_about_index_builds_and_blocked_holders() -> None:
    cursor = Cursor({})
    crowd = [waiting(pid, 7) for pid in range(100, 300)]
    waits = [OtherWait(1, "relation", "ShareLock"), OtherWait(5, "virtualxid", "ShareLock")]
    answers = ask(cursor, [*crowd, lock_rows(1, 7)], waits)
    assert {1, 5} < answers.keys()
    assert len(answers) == 64

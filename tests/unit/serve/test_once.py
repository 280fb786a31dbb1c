from __future__ import annotations

import asyncio
import threading

import pytest

from pglock_inspect.serve.once import Once


async def test_many_who_ask_while_it_is_made_get_the_same() -> None:
    once, made, go = Once(), [], threading.Event()

    def make() -> bytes:
        go.wait()
        made.append(1)
        return b"made"

    askers = [asyncio.create_task(once.get("it", 1, make)) for _ in range(20)]
    await asyncio.sleep(0)
    askers[0].cancel()  # one that leaves takes nothing away from the others
    go.set()
    assert await asyncio.gather(*askers[1:]) == [b"made"] * 19
    assert made == [1]


async def test_it_is_made_anew_of_something_new() -> None:
    once = Once()
    assert [await once.get("it", version, lambda: str(version).encode()) for version in (1, 1, 2)] == [  # noqa: B023
        b"1",
        b"1",
        b"2",
    ]
    assert await once.get("other", 2, lambda: b"other") == b"other"


async def test_what_fails_is_tried_again_with_something_new() -> None:
    once = Once()

    def fail() -> bytes:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await once.get("it", 1, fail)
    assert await once.get("it", 2, lambda: b"made") == b"made"


async def test_it_does_not_keep_whatever_was_ever_asked_for() -> None:
    once = Once()
    for number in range(1_000):
        await once.get(number, 1, lambda: b"")
    assert len(once._made) <= 256

"""Work beside the event loop that does not keep the process from ending."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def aside(work: Callable[[], T]) -> T:
    """Return what ``work`` returns, or raise what it raises, from a thread of its own.

    The thread is a daemon: asyncio's own would be waited for, however long they take.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def tell(outcome: Callable[[], None]) -> None:
        if not done.cancelled():
            outcome()

    def run() -> None:
        try:
            outcome = partial(done.set_result, work())
        except Exception as error:  # noqa: BLE001 - it is raised where the work was asked for
            outcome = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, outcome)

    threading.Thread(target=run, name="aside", daemon=True).start()
    return await done

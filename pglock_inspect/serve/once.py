"""Making what many ask for once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from pglock_inspect.serve.target import Latest

_MOST = 256


class Once:
    """Makes each thing of the same reports a single time, in a thread, and hands it to all who ask."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[list[int], asyncio.Task[bytes]]] = {}

    async def get(
        self, what: Hashable, latest: Sequence[Latest], make: Callable[[Sequence[Latest]], bytes]
    ) -> bytes:
        """Return what ``make`` makes of the reports; ``what`` says which thing that is."""
        serials = [each.serial for each in latest]
        made_of, task = self._made.get(what, (None, None))
        if task is None or made_of != serials:
            if len(self._made) >= _MOST:  # targets times formats that somebody asked for
                self._made.clear()
            task = asyncio.create_task(asyncio.to_thread(make, latest))
            self._made[what] = serials, task
        return await asyncio.shield(task)

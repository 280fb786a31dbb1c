"""Making what many ask for once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pglock_inspect.serve.aside import aside

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_MOST = 256


class Once:
    """Makes each thing once, in a thread, and hands it to all who ask until there is something new."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[Hashable, asyncio.Task[bytes]]] = {}

    async def get(self, what: Hashable, version: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return what ``make`` makes: ``what`` says which thing that is, ``version`` what of."""
        made_of, task = self._made.get(what, (None, None))
        if task is None or made_of != version:
            if len(self._made) >= _MOST:  # targets times formats that somebody asked for
                self._made.clear()
            task = asyncio.create_task(aside(make))
            self._made[what] = version, task
        return await asyncio.shield(task)

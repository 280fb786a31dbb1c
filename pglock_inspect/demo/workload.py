"""The sessions of the demo, kept running beside the program that watches them."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import psycopg
from psycopg import sql

from pglock_inspect.demo.scene import SCENE, Session
from pglock_inspect.errors import PglockInspectError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from pglock_inspect.demo.scene import Part
    from pglock_inspect.demo.server import TemporaryServer
    from pglock_inspect.model import Report
    from pglock_inspect.watch import Watcher

SERVER_SETTINGS = {"max_prepared_transactions": 10}
"""What a server has to be started with for the scene."""

CONFIGURATION = Path(__file__).with_name("demo.toml")
"""The jobs of the scene and their limits."""

_SCHEMA = Path(__file__).with_name("schema.sql")
_PATIENCE = 30.0  # seconds
_RECONNECT = 3.0  # seconds


class SceneIncomplete(PglockInspectError):
    """A session of the demo that does not do what it should."""


class Workload:
    """A context manager: on a new server, the sessions of a scene, in a thread of their own.

    A session that somebody ends comes back, as an application's does.
    """

    def __init__(self, server: TemporaryServer, scene: Sequence[Part] = SCENE) -> None:
        self._server = server
        self._scene = scene

    def __enter__(self) -> Self:
        with psycopg.connect(self._server.dsn(), autocommit=True) as connection:
            for user in {part.user for part in self._scene}:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(user)))
            connection.execute("CREATE DATABASE app OWNER deploy")
        with psycopg.connect(self.dsn(user="deploy"), autocommit=True) as connection:
            connection.execute(_SCHEMA.read_text("utf-8"))
        self._loop = asyncio.new_event_loop()
        self._playing = self._loop.create_task(self._play())
        self._thread = threading.Thread(target=self._run, name="workload", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._playing.cancel)
        self._thread.join(_PATIENCE)
        if not self._thread.is_alive():  # else the end of the server will end it
            self._loop.close()

    def dsn(self, **parameters: str) -> str:
        """Return a connection string for the database of the scene."""
        return self._server.dsn(dbname="app", **parameters)

    def wait(self, watcher: Watcher) -> Report:
        """Return the first report that shows the whole scene. Raises SceneIncomplete."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            report = watcher.poll()
            missing = [part.job or "a key without a name" for part in self._scene if not part.is_in(report)]
            if not missing:
                return report
            if self._playing.done():
                raise SceneIncomplete(f"a session of the demo failed: {_first_error(self._playing)}")
            if time.monotonic() > deadline:
                what = report.error or f"{', '.join(missing)} did not come to where it should"
                raise SceneIncomplete(f"the demo is not complete after {_PATIENCE:.0f} seconds: {what}")
            time.sleep(0.1)

    def _run(self) -> None:
        self._loop.run_until_complete(asyncio.wait([self._playing]))

    async def _play(self) -> None:
        async with asyncio.TaskGroup() as sessions:
            for part in self._scene:
                for application in part.applications:
                    sessions.create_task(self._act(part, application))

    async def _act(self, part: Part, application: str) -> None:
        while True:
            dsn = self.dsn(user=part.user, application_name=application)
            async with await Session.connect(dsn, autocommit=True) as session:
                with suppress(psycopg.OperationalError):  # somebody ended it
                    await part.act(session)
                    if session.closed:
                        return
                    async for _ in session.notifies():
                        pass
            await asyncio.sleep(_RECONNECT)


def _first_error(task: asyncio.Task[None]) -> str:
    error = task.exception()
    if isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error).partition("\n")[0]

"""A lock as its user has it: all that `Lock` and `AsyncLock` share, which is all but waiting.

What waits is a coroutine, here. An `AsyncLock` awaits it; that of a `Lock` ends without ever being suspended,
for what it awaits blocks.
"""

from __future__ import annotations

import select
from datetime import timedelta
from functools import lru_cache, partial
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack
from weakref import ReferenceType, ref

import psycopg
from psycopg.pq import TransactionStatus as Status

from pglock_inspect.deadline import elapsed, within
from pglock_inspect.errors import AlreadyHeld, LockLost, LockTimeout, NotAPsycopgConnection
from pglock_inspect.lock.level import Level, SessionLevel, TransactionLevel
from pglock_inspect.lock.wire import AnyConnection, end_session, refuse_after_fork
from pglock_inspect.schemes import codec_of, key_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGconn

    from pglock_inspect.keys import AdvisoryKey

BEAT = 5.0  # seconds from one sign of life to the next on a connection of the helper's own
DEADLINE = 5.0  # seconds for the server to answer
LEASE = 30.0  # seconds of silence after which the server ends the session
TICK = 0.2  # seconds until a connection that breaks is noticed

_LONGEST_NAME = 63  # bytes that servers keep of an application_name; one of thousands, they refuse
_key_of = lru_cache(key_of)
_users: dict[tuple[PGconn, AdvisoryKey], ReferenceType[BaseLock]] = {}


class Options(TypedDict, total=False):
    """What every function of the helper can be told.

    scheme: the rule that makes the key of the name; "hashtext" unless given.
    stamp: whether a second, shared lock tells other sessions when this one was taken; True unless given.
    pooler: "allow" accepts a pooler of sessions before a session-level lock; "refuse" unless given.
    wait: how long to wait for the lock; not at all unless given.
    on_lost: called with the LockLost as soon as the lock is known to be lost, in another thread or in the
        event loop; needs a connection string, since only the helper's own connections are watched.
    """

    scheme: str
    stamp: bool
    pooler: Literal["refuse", "allow"]
    wait: timedelta
    on_lost: Callable[[LockLost], object] | None


class BaseLock:
    """A lock; true while it is held, as far as is known.

    `proven_at` is when the question was asked, by the clock `elapsed`, that the server last answered: held.
    """

    granted = False
    proven_at = 0.0

    _kind: type[AnyConnection]
    _connection: Any
    _level: Level | None = None
    _lost: LockLost | None = None

    # What waits, and is the subclass's.
    _call: Callable[[Callable[[], Any]], Awaitable[Any]]
    _ask: Callable[[PQGen[Any]], Awaitable[Any]]
    _start_watch: Callable[[], None]
    _stop_watch: Callable[[], Awaitable[None]]

    def __init__(
        self,
        conn: AnyConnection | str,
        name: str,
        *,
        transaction: bool = False,
        lease: float = LEASE,
        key: AdvisoryKey | None = None,
        **options: Unpack[Options],
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a lock's name is a str, not {type(name).__name__}")
        for option in options.keys() - Options.__annotations__.keys():  # a misspelt scheme is another lock
            raise TypeError(f"there is no option {option}: choose of {', '.join(Options.__annotations__)}")
        wait = options.get("wait", timedelta())
        if not isinstance(wait, timedelta):
            raise TypeError(f"wait is a timedelta, not {type(wait).__name__}")
        self.name = name
        self._level_type = TransactionLevel if transaction else SessionLevel
        self._key = key
        self._options = options
        self._wait = max(wait, timedelta())
        self._conninfo = conn if isinstance(conn, str) else None
        self._lease = lease if isinstance(conn, str) else None
        if isinstance(conn, self._kind):
            self._connection = conn
            if options.get("on_lost"):
                raise TypeError("on_lost needs a connection string: a connection of yours is not watched")
        elif self._conninfo is None:
            given, wanted = type(conn), self._kind.__name__
            raise NotAPsycopgConnection(
                f"{given.__module__}.{given.__qualname__} is not psycopg.{wanted}: pass one, such as the "
                "driver's connection below SQLAlchemy's or Django's, or a connection string"
            )

    def __bool__(self) -> bool:
        return self.granted and not self._lost and self._level is not None

    async def _enter(self) -> None:
        if self._level:
            raise AlreadyHeld(f"this lock of {self._job} is in use: make another one")
        self.granted, self._lost = False, None
        if self._conninfo is not None:
            called = self.name[:_LONGEST_NAME] if self.name.isprintable() else None
            connect = partial(self._kind.connect, self._conninfo, fallback_application_name=called)
            self._connection = await self._call(connect)
        await self._guard(self._take)

    async def _take(self) -> None:
        pgconn, key, codec = self._connection.pgconn, self._key, "utf-8"
        refuse_after_fork(pgconn)
        if not self.name.isascii():
            codec = codec_of(self._connection.info.parameter_status("server_encoding") or "")
        key = key or _key_of(self.name, self._options.get("scheme", "hashtext"), encoding=codec)
        user = ref(self, _release_dropped)
        if _users.setdefault((pgconn, key), user) is not user:
            raise AlreadyHeld(
                f"this connection holds the lock of {self._job} already, and PostgreSQL would grant it once "
                "more: give each thread and each job its own connection"
            )
        self._level = self._level_type(
            self._connection,
            self.name,
            key,
            wait=self._wait,
            lease=self._lease,
            stamps=self._options.get("stamp", True),
            through_pooler=self._options.get("pooler") == "allow",
        )
        self.granted = await self._answer(self._level.take(), self._wait.total_seconds())
        if not self.granted:
            self._leave()
        elif self._lease:
            self._start_watch()

    async def _exit(self, job_error: BaseException | None) -> None:
        try:
            if self.granted:
                await self._guard(lambda: self._release(failed=job_error is not None))
        except Exception as error:
            if job_error is None:
                raise
            job_error.add_note(str(error))

    async def _release(self, *, failed: bool) -> None:
        if self._lease:
            await self._stop_watch()
        level = self._held()
        left = self._connection.pgconn.transaction_status
        to_be_committed = level.in_transaction and not failed
        rolls_back = left == Status.INERROR or (left == Status.INTRANS and not to_be_committed)
        if rolls_back and not self._lease:
            await self._try(self._call, self._connection.rollback)  # which forgets prepared statements, too
        await self._answer(level.release(left, failed=failed))
        self._leave()

    async def _guard(self, act: Callable[[], Awaitable[None]]) -> None:
        """Leave nothing locked where an act fails, be it by an interrupt: if need be, end the session."""
        try:
            await act()
        except BaseException as error:
            try:
                if self._level and not self._level.free:
                    if isinstance(error, GeneratorExit):  # there is nobody to ask the server
                        raise
                    await self._answer(within(DEADLINE, self._level.undo()))
            except BaseException as further:
                end_session(self._connection.pgconn)
                if not isinstance(further, Exception):
                    self._leave()
                    raise
            self._leave()
            raise

    async def _check(self) -> None:
        await self._prove(self._held().check())

    async def _prove(self, question: PQGen[None]) -> None:
        asked_at = elapsed()
        await self._answer(question)
        self.proven_at = asked_at

    async def _beat(self) -> None:
        try:
            await self._prove(self._held().beat())
        except LockLost as lost:
            self._lost = lost
            if on_lost := self._options.get("on_lost"):
                on_lost(lost)

    def _answer(self, question: PQGen[Any], wait: float = 0) -> Awaitable[Any]:
        return self._try(self._ask, within(wait + DEADLINE, question) if self._lease else question)

    async def _try(self, step: Callable[[Any], Awaitable[Any]], argument: object) -> Any:  # noqa: ANN401
        """Raise what an error of psycopg means for the lock, where it means more than it says."""
        refuse_after_fork(self._connection.pgconn)
        try:
            return await step(argument)
        except psycopg.Error as error:
            if self.granted and (self._lease or self._connection.closed):
                raise LockLost(
                    f"the lock of {self._job} was lost while the job ran: its connection broke or was closed "
                    "(the cause says how; see whether another run came between)"
                ) from error
            if not self.granted and isinstance(error, psycopg.errors.QueryCanceled):
                raise LockTimeout(
                    f"the wait for the lock of {self._job} was cut short by the session's statement_timeout, "
                    "or by a request to cancel it: raise statement_timeout, or wait less"
                ) from error
            raise

    def _held(self) -> Level:
        """Return the level, or raise what is known to stand against the lock."""
        if self.granted and self._level and not self._lost:
            return self._level
        if self.granted:
            raise self._lost or LockLost(f"the lock of {self._job} was released at the end of its with block")
        waited = f" within {self._wait}" if self._wait else ""
        raise LockTimeout(
            f"the lock of {self._job} was not granted{waited}: another session holds it, or its with block "
            "has not begun"
        )

    def _leave(self) -> None:
        if level := self._level:
            self._level = None
            _users.pop((level.pgconn, level.key), None)
        if self._lease:
            end_session(self._connection.pgconn)

    @property
    def _job(self) -> str:
        return shortened(self.name)


def _release_dropped(user: ReferenceType[BaseLock]) -> None:
    """End the session of a lock whose block was never left, or left by an interrupt on the threshold."""
    for claim in [claim for claim, other in list(_users.items()) if other is user]:
        end_session(claim[0])
        del _users[claim]


async def watch(lock: ReferenceType[BaseLock], socket: int, pause: Callable[[], Awaitable[bool]]) -> None:
    """Have a lock beat, until it is dropped, lost, or a pause tells that it is released.

    It beats at once where the server has said something, such as farewell.
    """
    heard, beat_at = select.poll(), elapsed() + BEAT
    heard.register(socket, select.POLLIN)
    while not await pause():
        if not (held := lock()):
            return
        if elapsed() >= beat_at or heard.poll(0):
            beat_at = elapsed() + BEAT
            await held._beat()  # noqa: SLF001  (one class)
        del held

"""A lock as its user has it: what `Lock` and `AsyncLock` share, which is all but waiting."""

from __future__ import annotations

import select
from collections.abc import Callable, Generator
from datetime import timedelta
from functools import lru_cache, partial
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack
from weakref import ReferenceType, ref

import psycopg

from pglock_inspect.deadline import elapsed, within
from pglock_inspect.errors import AlreadyHeld, LockLost, LockTimeout, NotAPsycopgConnection
from pglock_inspect.lock.session import SessionLevel
from pglock_inspect.lock.transaction import TransactionLevel
from pglock_inspect.lock.wire import AnyConnection, end_session, refuse_after_fork
from pglock_inspect.schemes import codec_of, key_of

if TYPE_CHECKING:
    from psycopg.abc import PQGen

    from pglock_inspect.keys import AdvisoryKey

BEAT = 5.0  # seconds from one sign of life to the next on a connection of the helper's own
DEADLINE = 5.0  # seconds for the server to answer
LEASE = 30.0  # seconds of silence after which the server ends the session
TICK = 0.2  # seconds until a connection that breaks is noticed

AnyLevel = SessionLevel | TransactionLevel
Step = Callable[[], Any]  # what a driver calls, and awaits if it is the async one
Flow = Generator[Step, Any, None]  # is sent what its steps return, or thrown what they raise
Resume = Callable[[Any], Step]

_LONGEST_NAME = 63  # bytes that servers keep of an application_name; one of thousands, they refuse
_AT_ONCE = timedelta()
_key_of = lru_cache(key_of)
_claims: dict[tuple[int, AdvisoryKey], AnyLevel] = {}  # by a connection's address


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
    _level: AnyLevel | None = None
    _lost: LockLost | None = None

    # What waits, and is the subclass's.
    _ask: Callable[[PQGen[Any]], Any]
    _start_watch: Callable[[], None]
    _stop_watch: Step

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
        wait = options.get("wait", _AT_ONCE)
        if not isinstance(wait, timedelta):
            raise TypeError(f"wait is a timedelta, not {type(wait).__name__}")
        self.name = name
        self._level_type = TransactionLevel if transaction else SessionLevel
        self._key = key
        self._options = options
        self._wait = max(_AT_ONCE, wait)
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
        return self.granted and self._lost is None and self._level is not None

    def _enter(self) -> Flow:
        if self._level:
            raise AlreadyHeld(f"this lock of {self._job} is in use: make another one")
        self.granted, self._lost = False, None
        if self._conninfo is not None:
            called = self.name[:_LONGEST_NAME] if self.name.isprintable() else None
            connect = partial(self._kind.connect, self._conninfo, fallback_application_name=called)
            self._connection = yield connect
        try:
            level = self._claim()
            self.granted = yield self._question(level.take(), self._wait.total_seconds())
            if not self.granted:
                self._leave()
            elif self._lease:
                self._beat_at = elapsed() + BEAT
                self._socket = select.poll()
                self._socket.register(self._connection.pgconn.socket, select.POLLIN)
                self._start_watch()
        except BaseException as error:  # noqa: BLE001  (be it an interrupt)
            try:
                self._explain(error)
                raise
            finally:
                yield from self._give_up(error)

    def _exit(self, job_error: BaseException | None) -> Flow:
        failed = job_error is not None
        try:
            if self.granted:
                yield self._stop_watch
                level = self._held()
                if level.rolls_back(failed=failed) and not self._lease:
                    yield self._connection.rollback  # which forgets prepared statements, too
                yield self._question(level.release(failed=failed))
            self._leave()
        except BaseException as error:  # noqa: BLE001  (as above)
            try:
                self._explain(error)
                raise
            except Exception as meaning:
                if job_error is None:
                    raise
                job_error.add_note(str(meaning))
            finally:
                yield from self._give_up(error)

    def _give_up(self, error: BaseException) -> Flow:
        """Leave nothing locked, if need be by ending the session."""
        try:
            if self._level and not self._level.free:
                if isinstance(error, GeneratorExit):  # there is nobody to ask the server
                    end_session(self._connection.pgconn)
                else:
                    yield partial(self._ask, within(DEADLINE, self._level.undo()))
        except BaseException as further:
            end_session(self._connection.pgconn)
            if not isinstance(further, Exception):
                raise
        finally:
            self._leave()

    def _check(self) -> Flow:
        yield from self._asking(self._held().check())

    def _asking(self, question: PQGen[None]) -> Flow:
        asked_at = elapsed()
        try:
            yield self._question(question)
        except psycopg.Error as error:
            self._explain(error)
            raise
        self.proven_at = asked_at

    def _beat(self) -> Flow:
        """Beat if it is time, or if the server has said something, such as farewell."""
        if elapsed() < self._beat_at and not self._socket.poll(0):
            return
        self._beat_at = elapsed() + BEAT
        try:
            yield from self._asking(self._held().beat())
        except LockLost as lost:
            self._lost = lost
            if on_lost := self._options.get("on_lost"):
                on_lost(lost)

    def _claim(self) -> AnyLevel:
        """Raise AlreadyHeld, UsedAfterFork or UnhashableName before anything is sent."""
        connection, options = self._connection, self._options
        refuse_after_fork(connection.pgconn)
        key, codec = self._key, "utf-8"
        if not self.name.isascii():
            codec = codec_of(connection.info.parameter_status("server_encoding") or "")
        level = self._level = self._level_type(
            connection,
            self.name,
            key or _key_of(self.name, options.get("scheme", "hashtext"), encoding=codec),
            stamps=options.get("stamp", True),
            wait=self._wait,
            through_pooler=options.get("pooler") == "allow",
            lease=self._lease,
        )
        if _claims.setdefault((id(level.pgconn), level.key), level) is not level:
            raise AlreadyHeld(
                f"this connection holds the lock of {self._job} already, and PostgreSQL would grant it once "
                "more: give each thread and each job its own connection"
            )
        level.user = ref(self, _release_dropped)
        return level

    def _held(self) -> AnyLevel:
        """Return the level, or raise what is known to stand against the lock."""
        if self.granted and self._level and not self._lost:
            refuse_after_fork(self._connection.pgconn)
            return self._level
        if self.granted:
            raise self._lost or LockLost(f"the lock of {self._job} was released at the end of its with block")
        waited = f" within {self._wait}" if self._wait else ""
        raise LockTimeout(f"the lock of {self._job} was not to be had{waited}: another session holds it")

    def _question(self, question: PQGen[Any], wait: float = 0) -> Step:
        return partial(self._ask, within(wait + DEADLINE, question) if self._lease else question)

    @property
    def _job(self) -> str:
        return shortened(self.name)

    def _explain(self, error: BaseException) -> None:
        """Raise what an error of psycopg means for the lock, if it means more than it says."""
        if self.granted and isinstance(error, psycopg.Error) and (self._lease or self._connection.closed):
            raise LockLost(
                f"the lock of {self._job} was lost while the job ran: its connection broke or was closed "
                "(the cause says how; see whether another run came between)"
            ) from error
        if not self.granted and isinstance(error, psycopg.errors.QueryCanceled):
            raise LockTimeout(
                f"the wait for the lock of {self._job} was cut short by the session's statement_timeout, or "
                "by a request to cancel it: raise statement_timeout, or wait less"
            ) from error

    def _leave(self) -> None:
        if self._level:
            claim = id(self._level.pgconn), self._level.key
            if _claims.get(claim) is self._level:
                del _claims[claim]
            self._level = None
        if self._lease:
            end_session(self._connection.pgconn)


def _release_dropped(user: ReferenceType[BaseLock]) -> None:
    """End the session of a lock whose block was never left, or left by an interrupt on the threshold."""
    for claim, level in list(_claims.items()):
        if level.user is user:
            end_session(level.pgconn)
            del _claims[claim]


def watch(lock: ReferenceType[BaseLock], pause: Step) -> Flow:
    """Keep watch over a lock, unless it is dropped, until a pause tells that it is released."""
    while not (yield pause):
        held = lock()
        if held is None or held._lost:  # noqa: SLF001  (one class)
            return
        yield from held._beat()  # noqa: SLF001
        del held

"""Names for the oids of databases and roles, kept from poll to poll."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from pglock_inspect.model import Database
from pglock_inspect.postgres.brief import one_round_trip
from pglock_inspect.postgres.queries import query
from pglock_inspect.postgres.rows import is_hidden

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pglock_inspect.model import LockRows

_REFRESH_SECONDS = 60.0
_RETRY_SECONDS = 5.0


class Directory:
    """Databases and roles by oid, and whether the activity of other roles is readable.

    Reading them needs locks on shared catalogs, which cannot be had while the lock table is full or
    somebody locks ``pg_authid``: what was known then stays. ``orphaned`` tells that the session's role was
    dropped since. ``confined`` makes the context to read them in.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        confined: Callable[[], AbstractContextManager[None]],
        clock: Callable[[], float],
    ) -> None:
        self.databases: Mapping[int, Database] = {}
        self.roles: Mapping[int, str] = {}
        self.privileged = False
        self.orphaned = False
        self._connection = connection
        self._confined = confined
        self._clock = clock
        self._read_at = clock()
        self._refresh()

    def refresh_for(self, locks: Sequence[LockRows], sessions: Sequence[tuple[Any, ...]]) -> None:
        """Read again what has grown old, has no name for an oid, or is contradicted by what is hidden."""
        age = self._clock() - self._read_at
        if age < _RETRY_SECONDS:
            return
        # Of the server's own processes, too, all is hidden or nothing.
        hidden = any(is_hidden(row) for row in sessions)
        if age >= _REFRESH_SECONDS or hidden is self.privileged or self._misses(locks, sessions):
            known = self.roles
            self._refresh()
            pid = self._connection.info.backend_pid
            role = next((row[2] for row in sessions if row[0] == pid), None)
            self.orphaned = role in known and role not in self.roles

    def _misses(self, locks: Sequence[LockRows], sessions: Sequence[tuple[Any, ...]]) -> bool:
        return not (
            self.databases.keys() >= {rows.database for rows in locks}
            and self.roles.keys() >= {row[2] for row in sessions if row[2]}
        )

    def _refresh(self) -> None:
        self._read_at = self._clock()
        try:
            with one_round_trip(self._connection), self._confined():
                databases = self._connection.execute(query("databases"), binary=True)
                roles = self._connection.execute(query("roles"), binary=True)
            self.databases = {
                oid: Database(oid, _name(name), _name(encoding)) for oid, name, encoding in databases
            }
            rows = roles.fetchall()
            self.roles = {oid: _name(name) for oid, name, _ in rows}
            self.privileged = any(privileged for _, _, privileged in rows)
        except psycopg.errors.OperationalError:
            if self._connection.broken:
                raise


def _name(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")

"""The server: opening a session, reading snapshots. With ``lock``, the only home of SQL."""

from __future__ import annotations

from pglock_inspect.postgres.connection import connect, parse, where
from pglock_inspect.postgres.lookups import Lookups
from pglock_inspect.postgres.reader import Reader

__all__ = ["Lookups", "Reader", "connect", "parse", "where"]

"""What a scheme is."""

from __future__ import annotations

from reprlib import repr as shortened
from typing import TYPE_CHECKING, Literal, NamedTuple

from pglock_inspect.errors import UnhashableName
from pglock_inspect.keys import AdvisoryKey, Value

if TYPE_CHECKING:
    from collections.abc import Callable


class Scheme(NamedTuple):
    """One rule from name to key.

    ``function`` gets the name in ``encoding`` and returns a signed bigint or a pair of signed int4; it
    raises ValueError, with the reason, for a name that it has no key for. ``encoding`` is None where the
    server does the hashing: then it is the database's, and ``sql`` turns a name into the arguments of
    ``pg_advisory_lock()`` that make the server do it. ``invert`` gives back the name of a key, or None.
    """

    name: str
    rule: str
    function: Callable[[bytes], Value]
    used_by: tuple[str, ...]
    form: Literal["bigint", "pair"] = "bigint"
    encoding: str | None = "utf-8"
    sql: Callable[[str], str] | None = None
    invert: Callable[[AdvisoryKey], str | None] | None = None
    example: str = "nightly_report"

    @property
    def hashed_by_server(self) -> bool:
        """Whether the key depends on the database's encoding, so that a connected server should be asked."""
        return self.encoding is None

    def key(self, name: str, *, encoding: str = "utf-8") -> AdvisoryKey:
        """Return the key of ``name`` in a database whose encoding is the codec ``encoding``.

        Raises `UnhashableName` where there is none.
        """
        if self.hashed_by_server and "\0" in name:
            raise self._no_key(name, "a text in PostgreSQL holds no NUL character")
        codec = self.encoding or encoding
        try:
            return AdvisoryKey.from_value(self.function(name.encode(codec)))
        except UnicodeEncodeError as error:
            raise self._no_key(name, f"{name[error.start]!a} is not in {codec}") from None
        except ValueError as error:
            raise self._no_key(name, error) from None

    def sql_arguments(self, name: str) -> str | None:
        """Return what to write in ``pg_advisory_lock(…)`` or after ``SELECT`` to have the server hash.

        None where the server does not hash. Raises `UnhashableName` as `key` does.
        """
        if self.sql is None:
            return None
        self.key(name)  # what has no key is refused here, not by the server
        return self.sql(name)

    def _no_key(self, name: str, reason: object) -> UnhashableName:
        return UnhashableName(f"scheme {self.name} has no key for the name {shortened(name)}: {reason}")

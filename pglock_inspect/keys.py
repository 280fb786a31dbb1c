"""The key of an advisory lock, in every form that people meet it.

PostgreSQL stores an advisory lock's key in three fields (src/backend/utils/adt/lockfuncs.c,
``SET_LOCKTAG_INT64`` and ``SET_LOCKTAG_INT32``): one bigint is split into its high and low halves with
``objsubid`` 1, two int4 stand in ``classid`` and ``objid`` with ``objsubid`` 2; ``pg_locks`` shows both
halves as unsigned. An extension may use any other ``objsubid``.
"""

from __future__ import annotations

import re
from reprlib import repr as shortened
from typing import Literal, NamedTuple

from pglock_inspect.errors import InvalidKey

Form = Literal["bigint", "pair", "extension"]
Value = int | tuple[int, int]

_BIGINT = 1
_PAIR = 2
_LONGEST = 200
_PASTED = re.compile(
    r"\s*[(\[]?\s*([+-]?\d{1,30})(?:\s*([,/])\s*([+-]?\d{1,30})(?:\s*\2\s*(\d{1,30}))?)?\s*[)\]]?\s*",
    re.ASCII,
)


class AdvisoryKey(NamedTuple):
    """One key as ``pg_locks`` shows it, without its database: two unsigned 32-bit halves and ``objsubid``."""

    classid: int
    objid: int
    objsubid: int

    @classmethod
    def from_bigint(cls, value: int) -> AdvisoryKey:
        """Return the key that ``pg_advisory_lock(bigint)`` takes; the value is signed, as in SQL."""
        if not -(1 << 63) <= value < 1 << 63:
            raise InvalidKey(f"{value} does not fit a bigint (-2^63 to 2^63-1)")
        return cls(value >> 32 & 0xFFFFFFFF, value & 0xFFFFFFFF, _BIGINT)

    @classmethod
    def from_pair(cls, first: int, second: int) -> AdvisoryKey:
        """Return the key that ``pg_advisory_lock(int4, int4)`` takes; both values are signed, as in SQL."""
        for value in (first, second):
            if not -(1 << 31) <= value < 1 << 31:
                raise InvalidKey(f"{value} does not fit an int4 (-2^31 to 2^31-1)")
        return cls(first & 0xFFFFFFFF, second & 0xFFFFFFFF, _PAIR)

    @classmethod
    def from_value(cls, value: Value) -> AdvisoryKey:
        """Return the key of a bigint or of a pair of int4."""
        return cls.from_bigint(value) if isinstance(value, int) else cls.from_pair(*value)

    @classmethod
    def from_pg_locks(cls, classid: int, objid: int, objsubid: int) -> AdvisoryKey:
        """Return the key of a row of ``pg_locks``, after checking that PostgreSQL could have shown it."""
        for name, value, bits in (("classid", classid, 32), ("objid", objid, 32), ("objsubid", objsubid, 16)):
            if not 0 <= value < 1 << bits:
                raise InvalidKey(f"{name} {value} is not an unsigned {bits}-bit number, as pg_locks shows it")
        return cls(classid, objid, objsubid)

    @classmethod
    def parse(cls, text: str) -> AdvisoryKey:
        """Return the key in ``N`` (a bigint), ``A,B`` (two int4) or ``classid/objid/objsubid``.

        Brackets, blanks and signs are accepted, since people paste what they see.
        """
        match = _PASTED.fullmatch(text) if len(text) <= _LONGEST else None
        if match:
            first, separator, second, third = match.groups()
            if separator is None:
                return cls.from_bigint(int(first))
            if separator == "," and third is None:
                return cls.from_pair(int(first), int(second))
            if separator == "/" and third is not None:
                return cls.from_pg_locks(int(first), int(second), int(third))
        raise InvalidKey(
            f"{shortened(text)} is no key: write N (a bigint), A,B (two int4) or classid/objid/objsubid"
        )

    @classmethod
    def unpack(cls, packed: int, objsubid: int) -> AdvisoryKey:
        """Return the key of two halves that were `packed`."""
        return cls(packed >> 32, packed & 0xFFFFFFFF, objsubid)

    @property
    def packed(self) -> int:
        """Both halves in one number."""
        return self.classid << 32 | self.objid

    @property
    def form(self) -> Form:
        """Whether one bigint, a pair of int4, or an extension made this key."""
        if self.objsubid == _BIGINT:
            return "bigint"
        return "pair" if self.objsubid == _PAIR else "extension"

    @property
    def value(self) -> Value | None:
        """The signed bigint or pair of int4 to write in SQL; None for an extension's key."""
        if self.objsubid == _BIGINT:
            return signed(self.classid << 32 | self.objid, 64)
        if self.objsubid == _PAIR:
            return signed(self.classid, 32), signed(self.objid, 32)
        return None

    @property
    def sql_arguments(self) -> str | None:
        """What stands between the parentheses of ``pg_advisory_lock()``; None for an extension's key."""
        value = self.value
        return None if value is None else str(value) if isinstance(value, int) else f"{value[0]}, {value[1]}"

    def __str__(self) -> str:
        value = self.value
        if value is None:
            return f"{self.classid}/{self.objid}/{self.objsubid}"
        return str(value) if isinstance(value, int) else f"{value[0]},{value[1]}"


def signed(unsigned: int, bits: int) -> int:
    """Return the signed integer whose two's complement of ``bits`` bits is ``unsigned``."""
    return unsigned - (1 << bits) if unsigned >> bits - 1 else unsigned

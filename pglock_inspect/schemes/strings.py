"""Small string hashes that languages and libraries bring along; each wraps at 32 or 64 bits."""

from __future__ import annotations

import re
from struct import unpack
from typing import TYPE_CHECKING

from pglock_inspect.keys import AdvisoryKey, signed

if TYPE_CHECKING:
    from collections.abc import Iterable

_INT4 = 0xFFFFFFFF
_INT8 = 0xFFFFFFFFFFFFFFFF
INTEGER = re.compile(rb"[+-]?\d{1,30}")  # longer ones fit no key, and int() refuses the longest

_FNV32_BASIS, _FNV32_PRIME = 0x811C9DC5, 0x01000193
_FNV64_BASIS, _FNV64_PRIME = 0xCBF29CE484222325, 0x00000100000001B3

_PACKED_LENGTH = 9  # of 7 bits each


def fnv1_32(data: bytes) -> int:
    """Return the FNV-1 of 32 bits, unsigned."""
    value = _FNV32_BASIS
    for byte in data:
        value = value * _FNV32_PRIME & _INT4 ^ byte
    return value


def fnv1_64(data: bytes) -> int:
    """Return the FNV-1 of 64 bits."""
    value = _FNV64_BASIS
    for byte in data:
        value = value * _FNV64_PRIME & _INT8 ^ byte
    return signed(value, 64)


def fnv1a_64(data: bytes) -> int:
    """Return the FNV-1a of 64 bits, which multiplies after the XOR."""
    value = _FNV64_BASIS
    for byte in data:
        value = (value ^ byte) * _FNV64_PRIME & _INT8
    return signed(value, 64)


def java_hashcode(data: bytes) -> int:
    """Return Java's ``String.hashCode()``."""
    value = 0
    for unit in _utf16_units(data):
        value = value * 31 + unit & _INT4
    return signed(value, 32)


def djb2_xor(data: bytes) -> int:
    """Return djb2 with XOR over UTF-16 units, unsigned."""
    return _djb2(5381, _utf16_units(data))


def infisical(data: bytes) -> int:
    """Return Infisical's ``hashtext``: djb2 with XOR from 0 over bytes, without its sign."""
    return abs(signed(_djb2(0, data), 32)) % (1 << 31)


def jasperfx(data: bytes) -> int:
    """Return JasperFx's ``GetDeterministicHashCode()``: djb2 over even and odd UTF-16 units, combined."""
    units = _utf16_units(data)
    seed = (5381 << 16) + 5381
    return signed(_djb2(seed, units[::2]) + _djb2(seed, units[1::2]) * 1566083941 & _INT4, 32)


def pack_ascii(data: bytes) -> tuple[int, int]:
    """Return up to nine ASCII characters of seven bits each, then a 0 bit, then 1 bits up to 64."""
    if len(data) > _PACKED_LENGTH:
        raise ValueError(f"it is longer than {_PACKED_LENGTH} characters")
    value = 0
    for character in data:
        value = value << 7 | character
    padding = 7 * (_PACKED_LENGTH - len(data))
    value = value << 1 + padding | (1 << padding) - 1
    return signed(value >> 32, 32), signed(value & _INT4, 32)


def unpack_ascii(key: AdvisoryKey) -> str | None:
    """Return the name that `pack_ascii` makes ``key`` of, or None.

    Only printable names count: half of all pairs could be nine characters, but under 4 % are printable.
    """
    if key.form != "pair":
        return None
    value = key.classid << 32 | key.objid
    for length in range(_PACKED_LENGTH, 0, -1):
        padding = 7 * (_PACKED_LENGTH - length)
        if value & (2 << padding) - 1 == (1 << padding) - 1:
            value >>= 1 + padding
            name = "".join(chr(value >> 7 * at & 127) for at in reversed(range(length)))
            return name if name.isprintable() else None
    return None


def integer(data: bytes) -> int:
    """Return the integer that the name is."""
    if not INTEGER.fullmatch(data):
        raise ValueError("it is not an integer")
    return int(data)


def integer_name(key: AdvisoryKey) -> str | None:
    """Return the bigint as text, or None for a key of two int4 or of an extension."""
    return str(key.value) if key.form == "bigint" else None


def _djb2(value: int, units: Iterable[int]) -> int:
    for unit in units:
        value = value * 33 & _INT4 ^ unit
    return value


def _utf16_units(data: bytes) -> tuple[int, ...]:
    return unpack(f"<{len(data) // 2}H", data)

"""PostgreSQL's own hash of a text, as a little-endian server computes it.

It is Bob Jenkins' lookup3 (src/common/hashfn.c, ``hash_bytes`` and ``hash_bytes_extended``). Three 32-bit
words a, b and c take up twelve bytes at a time. Python's integers do not wrap, so a sum is cut to 32 bits
only where its upper bits would come down again: this runs for every name learned from a server.
"""

from __future__ import annotations

from struct import iter_unpack, unpack

from pglock_inspect.keys import signed

_MASK = 0xFFFFFFFF
_START = 0x9E3779B9 + 3923095


def hashtext(data: bytes) -> int:
    """Return ``hashtext()`` of a text in the database's encoding, a signed int4."""
    return signed(_lookup3(data, 0)[1], 32)


def hashtextextended(data: bytes, seed: int = 0) -> int:
    """Return ``hashtextextended()`` of a text in the database's encoding, a signed bigint."""
    high, low = _lookup3(data, seed)
    return signed(high << 32 | low, 64)


def _lookup3(data: bytes, seed: int) -> tuple[int, int]:
    length = len(data)
    whole = length - length % 12
    a = b = c = _START + length & _MASK
    if seed:
        a, b, c = _mix(a + (seed >> 32 & _MASK), b + (seed & _MASK), c)
    for x, y, z in iter_unpack("<3I", data[:whole]):
        a, b, c = _mix(a + x, b + y, c + z & _MASK)
    # The lowest byte of c is left to the length: of the last 0 to 11 bytes, c takes three.
    x, y, z = unpack("<3I", data[whole : whole + 8].ljust(9, b"\0") + data[whole + 8 :].ljust(3, b"\0"))
    a, b, c = a + x, b + y & _MASK, c + z
    c = (c ^ b) - (b << 14 | b >> 18) & _MASK
    a = (a ^ c) - (c << 11 | c >> 21) & _MASK
    b = (b ^ a) - (a << 25 | a >> 7) & _MASK
    c = (c ^ b) - (b << 16 | b >> 16) & _MASK
    a = (a ^ c) - (c << 4 | c >> 28) & _MASK
    b = (b ^ a) - (a << 14 | a >> 18) & _MASK
    c = (c ^ b) - (b << 24 | b >> 8) & _MASK
    return b, c


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = (a - c ^ (c << 4 | c >> 28)) & _MASK
    c += b
    b = (b - a ^ (a << 6 | a >> 26)) & _MASK
    a += c
    c = (c - b ^ (b << 8 | b >> 24)) & _MASK
    b += a
    a = (a - c ^ (c << 16 | c >> 16)) & _MASK
    c += b
    b = (b - a ^ (a << 19 | a >> 13)) & _MASK
    a += c
    c = (c - b ^ (b << 4 | b >> 28)) & _MASK
    b += a
    return a, b, c

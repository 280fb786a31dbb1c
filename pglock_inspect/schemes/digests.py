"""Keys cut from a cryptographic digest or a CRC of the name's bytes.

``hashlib`` and ``hmac`` are imported where they are used: most runs hash with ``hashtext`` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable

Order = Literal["big", "little"]


def leading(algorithm: str, order: Order, *, size: int = 8) -> Callable[[bytes], int]:
    """Return the scheme that reads the first ``size`` bytes of a digest as a signed integer."""

    def function(data: bytes) -> int:
        return int.from_bytes(_digest(algorithm, data)[:size], order, signed=True)

    return function


def md5_60(data: bytes) -> int:
    """Return the first 60 bits of the MD5, never negative."""
    return int.from_bytes(_digest("md5", data)[:8], "big") >> 4


def sha1_offset(data: bytes) -> int:
    """Return the first 64 bits of the SHA-1, unsigned, moved down by 2^63."""
    return int.from_bytes(_digest("sha1", data)[:8], "big") - (1 << 63)


def sha256_pair(data: bytes) -> tuple[int, int]:
    """Return the first two 32-bit words of the SHA-256, little-endian."""
    digest = _digest("sha256", data)
    first, second = (int.from_bytes(digest[at : at + 4], "little", signed=True) for at in (0, 4))
    return first, second


def blake2b(data: bytes) -> int:
    """Return the BLAKE2b of eight bytes, which is not a cut from the usual one of 64, little-endian."""
    from hashlib import blake2b  # noqa: PLC0415  (see above)

    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)


def sqlx_hkdf(data: bytes) -> int:
    """Return the first eight bytes of HKDF-SHA256 (RFC 5869) with SQLx's info and no salt, little-endian."""
    from hmac import digest as hmac  # noqa: PLC0415  (see above)

    extracted = hmac(bytes(32), data, "sha256")
    expanded = hmac(extracted, b"SQLx (Rust) Postgres advisory lock\x01", "sha256")
    return int.from_bytes(expanded[:8], "little", signed=True)


def crc32_signed(data: bytes) -> int:
    """Return the CRC-32 as an int4."""
    crc = crc32(data)
    return crc - (1 << 32) if crc >> 31 else crc


def with_advisory_lock(data: bytes) -> tuple[int, int]:
    """Return the lower 31 bits of the CRC-32 and 0, the gem's prefix unless one is configured."""
    return crc32(data) & 0x7FFFFFFF, 0


def pg_lock(data: bytes) -> tuple[int, int]:
    """Return the smallest int4, which marks the gem's keys, and the CRC-32."""
    return -(1 << 31), crc32_signed(data)


def _digest(algorithm: str, data: bytes) -> bytes:
    import hashlib  # noqa: PLC0415  (see above)

    return hashlib.new(algorithm, data, usedforsecurity=False).digest()

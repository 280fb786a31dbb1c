"""Basic authentication against bcrypt hashes."""

from __future__ import annotations

import asyncio
import secrets
from base64 import b64decode
from hashlib import blake2b
from hmac import compare_digest
from typing import TYPE_CHECKING

import bcrypt

from pglock_inspect.serve.aside import aside

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_PASSWORD = 72  # bytes; bcrypt looks at no more


class Passwords:
    """Who may ask. A password that was right is known again without the work that bcrypt makes.

    A name that nobody has costs that work as well: time does not tell which names there are. One attempt is
    looked into at a time, so that those who guess cannot take more than one processor.
    """

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._hashes = {name.encode(): hashed.encode() for name, hashed in hashes.items()}
        self._decoy = max(self._hashes.values(), key=_cost)
        self._secret = secrets.token_bytes(32)
        self._known: dict[bytes, bytes] = {}
        self._busy = asyncio.Lock()

    async def admit(self, authorization: str) -> bool:
        """Whether an ``Authorization`` header names a user, and the user's password."""
        scheme, _, encoded = authorization.partition(" ")
        try:
            name, colon, password = b64decode(encoded.strip(), validate=True).partition(b":")
        except ValueError:
            return False
        if scheme.lower() != "basic" or not colon or len(password) > _LONGEST_PASSWORD or b"\0" in password:
            return False
        if self._knows(name, password):
            return True
        async with self._busy:
            if self._knows(name, password):  # since somebody else has just asked
                return True
            hashed = self._hashes.get(name, self._decoy)
            right = await aside(lambda: bcrypt.checkpw(password, hashed))
        if right and name in self._hashes:
            self._known[name] = self._digest(name, password)
            return True
        return False

    def _knows(self, name: bytes, password: bytes) -> bool:
        return compare_digest(self._known.get(name, b""), self._digest(name, password))

    def _digest(self, name: bytes, password: bytes) -> bytes:
        return blake2b(password, key=self._secret, salt=blake2b(name, digest_size=16).digest()).digest()


def _cost(hashed: bytes) -> int:
    return int(hashed[4:6])

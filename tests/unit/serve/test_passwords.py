from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import TYPE_CHECKING

import bcrypt
import pytest

from pglock_inspect.serve.passwords import Passwords

if TYPE_CHECKING:
    from collections.abc import Callable


def basic(name: str, password: str) -> str:
    return "Basic " + b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def passwords() -> Passwords:
    return Passwords({name: bcrypt.hashpw(name.encode(), bcrypt.gensalt(4)).decode() for name in ("a", "b")})


@pytest.fixture
def looked_into(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The passwords that bcrypt was asked about."""
    asked: list[bytes] = []
    check: Callable[[bytes, bytes], bool] = bcrypt.checkpw

    def checkpw(password: bytes, hashed: bytes) -> bool:
        asked.append(password)
        return check(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", checkpw)
    return asked


async def test_what_was_right_once_costs_nothing_more(passwords: Passwords, looked_into: list[bytes]) -> None:
    answers = await asyncio.gather(*(passwords.admit(basic("a", "a")) for _ in range(50)))
    assert all(answers)
    assert looked_into == [b"a"]
    assert await passwords.admit(basic("b", "b"))
    assert looked_into == [b"a", b"b"]


async def test_a_wrong_one_costs_the_same_whoever_gives_it(
    passwords: Passwords, looked_into: list[bytes]
) -> None:
    assert await passwords.admit(basic("a", "a"))
    for name in ("a", "b", "nobody"):
        assert not await passwords.admit(basic(name, "wrong"))
    assert looked_into == [b"a", b"wrong", b"wrong", b"wrong"]


async def test_the_decoy_opens_nothing(passwords: Passwords) -> None:
    for password in ("a", "b"):
        assert not await passwords.admit(basic("nobody", password))


@pytest.mark.parametrize("prefix", ["$2a$", "$2b$", "$2y$"])
async def test_what_htpasswd_writes(prefix: str) -> None:
    hashed = bcrypt.hashpw(b"x", bcrypt.gensalt(4)).decode()
    assert await Passwords({"a": prefix + hashed[4:]}).admit(basic("a", "x"))

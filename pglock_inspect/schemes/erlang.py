"""``erlang:phash2/1`` of the terms that software locks by: atoms, binaries, and tuples of them.

A term is hashed with Bob Jenkins' lookup2 (erts/emulator/beam/erl_term_hashing.c); Erlang promises that the
value is the same on every machine and in every release.
"""

from __future__ import annotations

import re
from struct import iter_unpack

_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
_ATOM, _TUPLE, _BINARY = (_GOLDEN * n & _MASK for n in (3, 9, 13))

# An atom, bare or quoted, or a binary; no escapes. Double quotes make a binary, as in Elixir.
_ELEMENT = r""":?(?:'[^'\\]*'|[^\W\d][\w.@]*)|"[^"\\]*"|<<"[^"\\]*">>|<<>>"""
_TERM = rf"\{{\s*((?:{_ELEMENT})(?:\s*,\s*(?:{_ELEMENT}))*)?\s*\}}|({_ELEMENT})"


def phash2(data: bytes) -> int:
    """Return the hash, 27 bits, of a term written as in Erlang or Elixir.

    ``{ecto,nil,MyApp.Repo}`` and ``{:ecto, nil, MyApp.Repo}`` are the same: a word with a capital is an
    Elixir module, the atom ``Elixir.MyApp.Repo``.
    """
    text = data.decode().strip()
    match = re.fullmatch(_TERM, text)
    if match is None:
        raise ValueError('write an Erlang term of atoms and "binaries", such as {ecto,nil,MyApp.Repo}')
    elements = re.findall(_ELEMENT, text)
    value = 0
    if match[2] is None:
        _, _, value = _mix(_TUPLE + len(elements), _TUPLE, 0)
    for element in elements:
        value = _binary(element, value) if element.startswith(('"', "<")) else _atom(element, value)
    return value & (1 << 27) - 1


def _atom(element: str, value: int) -> int:
    name = element.removeprefix(":")
    if name.startswith("'"):
        name = name[1:-1]
    elif name[:1].isupper() and not name.startswith("Elixir."):
        name = f"Elixir.{name}"
    hashed = _hashpjw(name)
    return _mix(_ATOM + hashed, _ATOM, value)[2] if value else hashed


def _binary(element: str, value: int) -> int:
    data = element.removeprefix("<<").removesuffix(">>")[1:-1].encode()
    length = len(data)
    value = _BINARY + value & _MASK
    if not data:
        return value
    a = b = _GOLDEN
    whole = length - length % 12
    for x, y, z in iter_unpack("<3I", data[:whole]):
        a, b, value = _mix(a + x, b + y, value + z)
    # The lowest byte of the last word is left to the length.
    last = data[whole : whole + 8].ljust(9, b"\0") + data[whole + 8 :].ljust(3, b"\0")
    ((x, y, z),) = iter_unpack("<3I", last)
    return _mix(a + x, b + y, value + z + length)[2]


def _hashpjw(name: str) -> int:
    value = 0
    for character in name:
        for byte in character.encode("latin-1" if character < "\u0100" else "utf-8"):
            value = (value << 4) + byte
            value ^= value >> 24 & 0xF0
            value &= 0xFFFFFFF
    return value


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = (a - b - c & _MASK) ^ (c & _MASK) >> 13
    b = (b - c - a ^ a << 8) & _MASK
    c = (c - a - b & _MASK) ^ b >> 13
    a = (a - b - c & _MASK) ^ c >> 12
    b = (b - c - a ^ a << 16) & _MASK
    c = (c - a - b & _MASK) ^ b >> 5
    a = (a - b - c & _MASK) ^ c >> 3
    b = (b - c - a ^ a << 10) & _MASK
    c = (c - a - b & _MASK) ^ b >> 15
    return a, b, c

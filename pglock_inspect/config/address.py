"""Where a server listens."""

from __future__ import annotations

import re
from reprlib import repr as shortened
from typing import NamedTuple

_WRITTEN = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%\w+)?)\]|([^:\s\[\]]+)):(\d{1,5})", re.ASCII)
_LAST_PORT = 65_535


class Address(NamedTuple):
    """A host name or an IP address, and a port; port 0 is any that is free."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address in ``127.0.0.1:10187`` or ``[::]:10187``. Raises ValueError with a sentence."""
    found = _WRITTEN.fullmatch(text)
    if not found or int(found[3]) > _LAST_PORT:
        raise ValueError(f"{shortened(text)} is no ADDRESS:PORT to listen on: write it like 127.0.0.1:10187")
    return Address(found[1] or found[2], int(found[3]))

"""The encodings of databases, as Python names them."""

from __future__ import annotations

import codecs
from functools import cache

_CODECS = {
    "EUC_CN": "gb2312",
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    "SQL_ASCII": "utf-8",  # whatever the client sent, which nearly always was UTF-8
}


@cache
def codec_of(server_encoding: str) -> str:
    """Return the codec for a database's encoding, named as ``pg_encoding_to_char()`` names it.

    For an encoding that Python does not have (``EUC_TW``, ``MULE_INTERNAL``) it is ASCII: all of them
    contain it, and a name outside it is then refused instead of hashed wrongly.
    """
    windows = server_encoding.removeprefix("WIN")
    candidate = _CODECS.get(server_encoding) or (f"cp{windows}" if windows.isdigit() else server_encoding)
    try:
        return codecs.lookup(candidate).name
    except LookupError:
        return "ascii"

"""How text is shown on an output."""

from __future__ import annotations

import codecs
import os
from typing import TYPE_CHECKING, NamedTuple

from pglock_inspect.present.glyphs import ASCII, UNICODE, Glyphs
from pglock_inspect.present.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping


class Look(NamedTuple):
    """The signs to use, and the encoding that all text has to fit."""

    glyphs: Glyphs = UNICODE
    encoding: str = "utf-8"

    def text(self, raw: str, limit: int = 1_000) -> str:
        """Return the start of text from outside as one inert line that the output has signs for."""
        return one_line(raw, limit).encode(self.encoding, "replace").decode(self.encoding)


def look_of(encoding: str, environ: Mapping[str, str] = os.environ) -> Look:
    """Return the look for text written in ``encoding``: plain ASCII where the locale asks."""
    encoding = codecs.lookup(encoding).name
    return Look(ASCII if encoding != "utf-8" or _asks_for_ascii(environ) else UNICODE, encoding)


def _asks_for_ascii(environ: Mapping[str, str]) -> bool:
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
    if locale == "C.UTF-8" and not environ.get("LC_ALL"):
        locale = environ.get("LANG") or locale  # Python itself sets LC_CTYPE so where it finds C (PEP 538)
    _, _, charset = locale.partition(".")
    return locale in {"C", "POSIX"} or charset.lower() not in {"", "utf-8", "utf8"}

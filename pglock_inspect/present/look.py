"""How text is shown on an output."""

from __future__ import annotations

from typing import NamedTuple

from pglock_inspect.present.glyphs import UNICODE, Glyphs
from pglock_inspect.present.text import one_line


class Look(NamedTuple):
    """The signs to use, and the encoding that all text has to fit."""

    glyphs: Glyphs = UNICODE
    encoding: str = "utf-8"

    def text(self, raw: str, limit: int = 1_000) -> str:
        """Return the start of text from outside as one inert line that the output has signs for."""
        return one_line(raw, limit).encode(self.encoding, "replace").decode(self.encoding)

"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace what a file holds, at once, for its owner's eyes alone by default. Raises OSError."""
    path = path.resolve()  # a link stays one
    draft, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(draft, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise

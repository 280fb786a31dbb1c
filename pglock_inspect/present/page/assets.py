"""The files that the page asks for, and what it may do."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The header to send with the page: what it shows cannot load, run or send anything."""

_FOLDER = files("pglock_inspect.present.page") / "files"
_ICON = (_FOLDER / "favicon.svg").read_bytes()
_COLORS = {"good": b"#2da44e", "warning": b"#d9a400", "critical": b"#d1242f", "quiet": b"#808996"}


ASSETS: Mapping[str, tuple[bytes, str]] = {
    "style.css": ((_FOLDER / "style.css").read_bytes(), "text/css; charset=utf-8"),
    "page.js": ((_FOLDER / "page.js").read_bytes(), "text/javascript; charset=utf-8"),
    "favicon.svg": (_ICON, "image/svg+xml"),
    **{
        f"favicon-{meaning}.svg": (_ICON.replace(b"currentColor", color), "image/svg+xml")
        for meaning, color in _COLORS.items()
    },
}
"""File name to content and media type; the page asks for them below ``assets/``."""

VERSION = sha256(b"".join(content for content, _ in ASSETS.values())).hexdigest()[:12]
"""Changes with any of the files: they may be kept under ``?VERSION`` for good."""

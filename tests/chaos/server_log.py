"""What the log of the harmed server says of each session: what it did when, when it ended, and why."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS: dict[str, str | int] = {
    "log_line_prefix": "%n|%a|",
    "log_statement": "all",
    "log_disconnections": "on",
    "max_connections": 60,
}

_LINE = re.compile(r"(?P<at>[0-9.]+)\|(?P<session>.*?)\|(?P<level>[A-Z]+): +(?P<text>.*)")
_RELEASES = re.compile(r"pg_advisory_unlock|\b(COMMIT|ROLLBACK)\b")
CONNECTION_BROKE = "its connection broke"
LEASE_RAN_OUT = "its lease ran out"
_REASONS = {
    "due to administrator command": "it was terminated",
    "idle-session timeout": LEASE_RAN_OUT,
    "idle-in-transaction timeout": LEASE_RAN_OUT,
}


@dataclass
class Session:
    """Times are seconds since the epoch, cut off to milliseconds."""

    statements: list[float] = field(default_factory=list)
    releases: list[float] = field(default_factory=list)
    ended: float | None = None
    reason: str = CONNECTION_BROKE

    def read(self, at: float, level: str, text: str) -> None:
        if text.startswith(("statement:", "execute ")):
            self.statements.append(at)
            if _RELEASES.search(text):
                self.releases.append(at)
        elif self.ended is None and text.startswith("disconnection:"):
            self.ended = at
        elif self.ended is None and level == "FATAL":
            self.reason = next((reason for words, reason in _REASONS.items() if words in text), self.reason)


def read_log(path: Path) -> dict[str, Session]:
    """Return the sessions by their application_name."""
    sessions = defaultdict[str, Session](Session)
    for line in path.read_text("utf-8", "replace").splitlines():
        if not (match := _LINE.match(line)):
            continue  # a statement goes on
        at, name, level, text = float(match["at"]), match["session"], match["level"], match["text"]
        if name:
            sessions[name].read(at, level, text)
        elif "shutdown request" in text:
            for session in sessions.values():
                if session.ended is None:
                    session.ended, session.reason = at, "the server stopped"
    return sessions

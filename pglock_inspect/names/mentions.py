"""Advisory locks that a server's log, a deadlock report or a person mentions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from pglock_inspect.keys import AdvisoryKey

if TYPE_CHECKING:
    from collections.abc import Iterator

# DescribeLockTag() in lmgr.c writes database, classid, objid and objsubid; the words around are translated.
_TAG = r"\[(\d{1,10}),(\d{1,10}),(\d{1,10}),(\d{1,5})\]"
_BRACKETS = re.compile(_TAG, re.ASCII)
_PROCESS = re.compile(
    rf"\b[Pp]rocess (\d{{1,10}}) [^\n]{{0,200}}?\b(\w{{1,20}}Lock) on advisory lock {_TAG}", re.ASCII
)
_BLOCKER = re.compile(r"; blocked by process (\d{1,10})", re.ASCII)
_STATEMENT = re.compile(r"^[ \t]*Process (\d{1,10}): (.+)$", re.ASCII | re.MULTILINE)


class Mention(Struct, frozen=True):
    """One advisory lock in a text: its key, and what the text says of who wanted it.

    ``database`` is an oid. ``statement`` is what ``pid`` ran, ``blocked_by`` who was in its way.
    """

    key: AdvisoryKey
    database: int | None = None
    pid: int | None = None
    mode: str | None = None
    blocked_by: int | None = None
    statement: str | None = None


def mentions(text: str) -> tuple[Mention, ...]:
    """Return the locks that a text mentions, in its order: a key alone, log lines, a deadlock report.

    Raises `InvalidKey` where it mentions none.
    """
    found = tuple(dict.fromkeys(_in_log(text)))
    return found or (Mention(AdvisoryKey.parse(text)),)


def _in_log(text: str) -> Iterator[Mention]:
    statements = {int(pid): statement.strip() for pid, statement in _STATEMENT.findall(text)}
    for line in text.splitlines():
        process = _PROCESS.search(line)
        if process:
            pid, mode, *tag = process.groups()
            blocker = _BLOCKER.search(line)
            yield Mention(
                key=_key(tag),
                database=int(tag[0]),
                pid=int(pid),
                mode=mode,
                blocked_by=int(blocker[1]) if blocker else None,
                statement=statements.get(int(pid)),
            )
        else:
            for tag in _BRACKETS.findall(line):
                yield Mention(key=_key(tag), database=int(tag[0]))


def _key(tag: tuple[str, ...] | list[str]) -> AdvisoryKey:
    return AdvisoryKey.from_pg_locks(*map(int, tag[1:]))

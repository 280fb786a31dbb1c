"""The page about known software: `python -m tests.support.known_page` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pglock_inspect.names.catalogue import catalogue

if TYPE_CHECKING:
    from pglock_inspect.names.catalogue import KnownLock, Software

_BARE = str.maketrans("", "", "() ")
PAGE = Path(__file__).parents[2] / "docs" / "known-software.md"

_HEAD = """# Known software

A lock that nobody configured, and whose name nobody says on the server, may still be told by its key: the
locks of these products are known. `ls` shows the name, with a question mark where the key alone does not
prove it.

- *for life*: held for long by design (by a leader, a worker, a backup), and therefore never called stale.
- *if …*: the key is a number that others may use too. It is named, with a question mark, only where that is
  found in the database that is connected to, or in the session's `application_name`.
- *for sure if …*: it is named in any case, and without a question mark where that is found.
- *with read_tables*: looked up in a table of the product, only for keys that are held, and only with
  `read_tables = true` in the [configuration](configuration.md).
- *a name*: the product hashes a name that its user chose. It is found where a statement, an
  `application_name`, your `names_query` or your configuration says it, under the [scheme](schemes.md) given.

| Product | What it locks for | Held | Recognised by |
|---|---|---|---|
"""

_FOOT = """
A product is added by one entry in `pglock_inspect/names/known.toml`, with a worked example that the tests
replay; `python -m tests.support.known_page` then writes this page anew.
"""


def page() -> str:
    rows = sorted((_row(software) for software in catalogue()), key=str.lower)
    return _HEAD + "".join(f"| {row} |\n" for row in rows) + _FOOT


def _row(software: Software) -> str:
    note = f". {software.note}" if software.note else ""
    cells = (software.product, software.purpose, _held(software), _ways(software) + note)
    return " | ".join(cell.replace("|", "\\|") for cell in cells)


def _held(software: Software) -> str:
    scopes = {lock.scope or software.scope for lock in software.locks} or {software.scope}
    lives = {software.long_lived if lock.long_lived is None else lock.long_lived for lock in software.locks}
    level = "" if None in scopes else " or ".join(sorted(f"{scope}-level" for scope in scopes if scope))
    life = "" if True not in lives else "for life" if lives == {True} else "some for life"
    return ", ".join(part for part in (level, life) if part)


def _ways(software: Software) -> str:
    grouped: dict[tuple[str, str], list[str]] = {}
    for lock in software.locks:
        way, what = _way(software, lock)
        grouped.setdefault((way, _condition(software, lock)), []).append(what)
    ways = [
        f"{way}{', '.join(dict.fromkeys(filter(None, whats)))}{condition}"
        for (way, condition), whats in grouped.items()
    ]
    if software.never:
        ways.append(f"nothing: {software.never}")
    if software.scheme:
        ways.append(f"a name, `{software.scheme}`")
    return "; ".join(ways)


def _way(software: Software, lock: KnownLock) -> tuple[str, str]:
    """Return how a lock is recognised, and by what: locks of one way are listed together."""
    inputs = " and the ".join(one for one in ("database", "schema") if f"{{{one}}}" in (lock.text or ""))
    table = f"the table `{lock.table}`" if lock.table else "the server's catalogs"
    low, high = lock.between or (0, 0)
    ways: tuple[tuple[object, str, str], ...] = (
        (lock.invert, "the key itself, which is the name", ""),
        (lock.key is not None, "the key ", f"`{lock.key}`".translate(_BARE)),
        (lock.between, "a key ", f"from `{low}` to `{high}`"),
        (lock.first is not None, "a pair that starts with ", f"`{lock.first}`"),
        (lock.objsubid and lock.objsubid > 2, "`objsubid` ", f"`{lock.objsubid}`"),
        (lock.rows or lock.texts, table if lock.catalog else f"{table}, with *read_tables*", ""),
        (inputs, f"the name of the {inputs}", ""),
        (lock.text, f"`{lock.scheme or software.scheme}` of ", f"`{lock.text}`".replace("\0", " ")),
    )
    return next((way, what) for fits, way, what in ways if fits)


def _condition(software: Software, lock: KnownLock) -> str:
    """Return under which condition a claim counts that the key alone does not prove."""
    confidence = lock.confidence or software.confidence
    if confidence == "high" or lock.rows or lock.invert:
        return ""
    items = [" or ".join(f"`{one}`" for one in _either(item)) for item in software.evidence]
    tables = " and ".join(item for item in items if "`application " not in item)
    applications = [item for item in items if "`application " in item]
    either = ", or ".join(part for part in (tables, *applications) if part)
    return f" *if* {either}" if confidence == "low" else f" (*for sure if* {either})"


def _either(item: str | tuple[str, ...]) -> tuple[str, ...]:
    return (item,) if isinstance(item, str) else item


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

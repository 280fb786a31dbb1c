"""Where configuration is looked for, and how a file is read."""

from __future__ import annotations

import re
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Any, NamedTuple

from pglock_inspect.config.problems import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

_LIMIT = 1 << 20  # bytes; 10,000 jobs take less
_MOST_DOTS = 200  # in a line; tomllib spends the square of a dotted key's parts, minutes on a hostile one
_TABLE = "pglock-inspect"
_PROJECT_FILES = ("pglock-inspect.toml", "pyproject.toml")
_POSITION = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
_BARE_DURATION = re.compile(r"=\s*[\d.]+\s*[a-z]")


class Source(NamedTuple):
    """A file that was read: what it says, and whose it is.

    ``table`` is the TOML table that holds our settings, ``place`` where it stands. ``trusted`` is false for a
    file that was merely found in the current directory.
    """

    place: Place
    table: dict[str, Any]
    trusted: bool


def find_sources(config: Path | None, environ: Mapping[str, str], cwd: Path) -> tuple[Source, ...]:
    """Return the user's own file and the project's, as far as there are any, in this order.

    Raises `ConfigError` for one that cannot be read.
    """
    own = _given(config, environ, cwd) or _users(environ)
    for name in _PROJECT_FILES:
        path = cwd / name
        if own and _same_file(path, own.place.file):
            break
        project = _found(path, trusted=False)
        if project:
            return (own, project) if own else (project,)
    return (own,) if own else ()


def _given(config: Path | None, environ: Mapping[str, str], cwd: Path) -> Source | None:
    path = config or environ.get("PGLOCK_CONFIG")
    if not path:
        return None
    path = cwd / path
    content = _read(path, regular=False)
    if content is None:
        raise Place(path).problem("there is no such file: correct --config or PGLOCK_CONFIG")
    source = _source(path, content, trusted=True)
    if source is None:
        raise Place(path).problem(f"has no table [tool.{_TABLE}]: add it, or name another file")
    return source


def _users(environ: Mapping[str, str]) -> Source | None:
    base = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not base.is_absolute():  # as the XDG Base Directory Specification wants it
        if not environ.get("HOME"):
            return None
        base = Path(environ["HOME"], ".config")
    return _found(base / "pglock-inspect" / "config.toml", trusted=True)


def _found(path: Path, *, trusted: bool) -> Source | None:
    content = _read(path, regular=True)
    return None if content is None else _source(path, content, trusted=trusted)


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _read(path: Path, *, regular: bool) -> bytes | None:
    """Return what is in a file, or None where there is none. ``regular``: it must not be a pipe or device."""
    try:
        mode = path.stat().st_mode
        if S_ISDIR(mode) or (regular and not S_ISREG(mode)):
            raise Place(path).problem("is not a file: remove it, or name a file with --config")
        with path.open("rb") as file:
            content = file.read(_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Place(path).problem(f"cannot be read ({error.strerror}): make it readable") from None
    if len(content) > _LIMIT:
        raise Place(path).problem("is larger than 1 MiB, which no configuration is: name another file")
    return content


def _source(path: Path, content: bytes, *, trusted: bool) -> Source | None:
    """Return a file as TOML; None where it is a ``pyproject.toml`` that says nothing to us."""
    if path.name != "pyproject.toml":
        return Source(Place(path), _parse(path, content), trusted)
    if _TABLE.encode() not in content:
        return None
    tool = _parse(path, content).get("tool")
    table = tool.get(_TABLE) if isinstance(tool, dict) else None
    if table is None:
        return None
    place = Place(path, f"tool.{_TABLE}")
    if not isinstance(table, dict):
        raise place.problem("must be a table")
    return Source(place, table, trusted)


def _parse(path: Path, content: bytes) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415  (most invocations read no file)

    text = _decode(path, content)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(path, text, str(error)) from None
    except (ValueError, RecursionError):  # an integer of thousands of digits, or arrays nested as deep
        raise Place(path).problem(
            "is no TOML that can be read: a number is too long or a value nested too deep"
        ) from None


def _decode(path: Path, content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Place(path, f"line {line}").problem("is not UTF-8: save the file in this encoding") from None
    for index, dots in enumerate(line.count(".") for line in text.split("\n")):
        if dots > _MOST_DOTS:
            where = Place(path, f"line {index + 1}")
            raise where.problem(f"has more than {_MOST_DOTS} dots: write less on a line")
    return text


def _syntax_error(path: Path, text: str, message: str) -> Exception:
    match = _POSITION.fullmatch(message)
    lines = text.split("\n")
    line, column = len(lines), len(lines[-1]) + 1
    if match:
        message = match[1]
        if match[2]:
            line, column = int(match[2]), int(match[3])
    hint = '; write a duration in quotes, like "10m"' if _BARE_DURATION.search(lines[line - 1]) else ""
    where = Place(path, f"line {line}, column {column}")
    return where.problem(f"is no TOML: {message[:1].lower()}{message[1:]}{hint}")

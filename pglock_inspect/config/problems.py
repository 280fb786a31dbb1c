"""What is said about something wrong in a file: where it stands, what it is, and the fix."""

from __future__ import annotations

import re
from reprlib import repr as shortened
from typing import TYPE_CHECKING, NamedTuple, get_args

from msgspec.structs import fields

from pglock_inspect.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from msgspec import Struct, ValidationError

_LONGEST = 1000
_TYPES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "a table",
    "datetime": "a date and time",
    "date": "a date",
    "time": "a time",
}


class Place(NamedTuple):
    """A place in a file: ``at`` is the path to it, as ``jobs[1]``, and ``whose`` what is known of it."""

    file: Path
    at: str = ""
    whose: str = ""

    def inside(self, key: str, whose: str = "") -> Place:
        """Return a place in this one."""
        return Place(self.file, f"{self.at}.{key}" if self.at else key, whose)

    def problem(self, what: str, *, key: str = "") -> ConfigError:
        """Return the error about this place, or about a key in it.

        A file holds anything: what would move the cursor or turn a line around comes out escaped.
        """
        where = ".".join(part for part in (self.at, key) if part)
        if where and self.whose:
            where = f"{where} ({self.whose})"
        text = ": ".join(part for part in (str(self.file), where, what[:_LONGEST]) if part)
        return ConfigError(text if text.isprintable() else repr(text)[1:-1])


def explain(
    error: ValidationError, shape: type[Struct], tables: Mapping[str, type[Struct]]
) -> tuple[str, str]:
    """Return the key that a validation error is about, relative to its table, and a sentence on it.

    ``shape`` is what the table should have been; ``tables`` maps the headings of all tables to their shapes.
    """
    text, _, path = str(error).rpartition(" - at `$")
    if not text:  # about the table itself
        text, path = path, ""
    key = path.strip(".`")
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL):
        return key, f"{shortened(match[1])} is not known here: {_hint(match[1], shape, tables)}"
    if match := re.fullmatch(r"Object missing required field `(.*)`", text):
        return key, f"{match[1]} is missing: add it"
    if match := re.fullmatch(r"Invalid enum value '(.*)'", text, re.DOTALL):
        return key, f"must be {_any_of(_choices(shape, key))}, not {shortened(match[1])}"
    return key, _about_type(text, key)


def _about_type(text: str, key: str) -> str:
    if text == "Expected `str` of length >= 1":
        return "must not be empty"
    if text == "Expected `array`, got `object`":
        return f"must be an array of tables: write [[{key}]]"
    if match := re.fullmatch(r"Expected `(.*)`, got `(.*)`", text):
        wanted = [_TYPES.get(name, name) for name in match[1].split(" | ") if name != "null"]
        return f"must be {_any_of(wanted)}, not {_TYPES.get(match[2], match[2])}"
    return text  # from `read`, which says what it wants


def _hint(unknown: str, shape: type[Struct], tables: Mapping[str, type[Struct]]) -> str:
    if homes := [heading for heading, table in tables.items() if unknown in table.__struct_fields__]:
        return f"it belongs in {_any_of(homes)}"
    return suggestion(unknown, shape.__struct_fields__)


def suggestion(unknown: str, known: Collection[str]) -> str:
    """Return what to write instead of a word that is not known."""
    from difflib import get_close_matches  # noqa: PLC0415  (7 ms, for a mistake only)

    near = get_close_matches(unknown.lower(), known, n=1)
    return f"did you mean {near[0]}?" if near else f"write one of {', '.join(known)}"


def _choices(shape: type[Struct], key: str) -> list[str]:
    literals = next(get_args(field.type) for field in fields(shape) if field.name == key)
    return [word for literal in literals for word in get_args(literal)]


def _any_of(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))

"""The JSON document, as its schema describes it."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

_SCHEMA = json.loads((files("pglock_inspect") / "data" / "report.schema.json").read_text("utf-8"))
_OBJECTS = {
    "server": "server",
    "capacity": "capacity",
    "lock": "locks[]",
    "lock_key": "locks[].key",
    "session": "locks[].session",
    "prepared": "locks[].prepared",
    "held": "locks[].held",
    "finding": "findings[]",
    "key": "findings[].key",
}
_INTRODUCTION = """\
# JSON

One poll of one server is one document. `ls --format json` and `check --format json` print it, the exporter
answers `/api/v1/report` with it, and each line of a recording is one.
[Its schema](../pglock_inspect/data/report.schema.json) is part of the package:

```python
import json
from importlib.resources import files

schema = json.loads((files("pglock_inspect") / "data" / "report.schema.json").read_text())
```

Unknown is null, never 0. Durations are seconds, times RFC 3339 in UTC by the server's clock. `schema_version`
is 1: fields may be added, none changes its meaning.

```sh
pglock-inspect ls --format json | jq '[.locks[] | select(.held.at_least > 600) | .session.pid]'
```
"""


def page() -> str:
    """Return the page, in Markdown."""
    parts = [_INTRODUCTION, _part("The document", _SCHEMA)]
    for name, place in _OBJECTS.items():
        described = _SCHEMA["$defs"].get(name) or _SCHEMA["properties"][name]
        parts.append(_part(f"`{place}`", described))
    return "\n".join(parts)


def _part(heading: str, described: dict[str, Any]) -> str:
    required = set(described["required"])
    lines = [f"## {heading}", "", described["description"], "", "| field | type | |", "|---|---|---|"]
    for name, field in described["properties"].items():
        there = "" if name in required else ", not always there"
        lines.append(f"| `{name}` | {_type(field)}{there} | {field['description']} |")
    return "\n".join([*lines, ""])


def _type(field: dict[str, Any]) -> str:
    match field:
        case {"anyOf": choices}:
            kind = " or ".join(map(_type, choices))
        case {"$ref": reference}:
            name = reference.rpartition("/")[2]
            kind = "object" if name in _OBJECTS else _type(_SCHEMA["$defs"][name])
        case {"const": value}:
            kind = f"`{value}`"
        case {"enum": values}:
            kind = " ".join(f"`{json.dumps(value).strip(chr(34))}`" for value in values)
        case {"format": "date-time"}:
            kind = "time"
        case {"type": "array"}:
            kind = f"array of {_type(field['items'])}"
        case {"type": [*kinds]}:
            kind = " or ".join(kinds)
        case _:
            kind = field["type"]
    return kind

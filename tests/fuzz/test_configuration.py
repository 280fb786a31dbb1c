"""Whatever a file holds, it is understood or refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from pglock_inspect.config import load_settings
from pglock_inspect.config.tables import TABLES, File
from pglock_inspect.errors import ConfigError
from pglock_inspect.findings import RULES
from pglock_inspect.schemes import SCHEMES

COMPLETE = (Path(__file__).parents[1] / "unit" / "good_config.toml").read_text()
KEYS = sorted({*File.__struct_fields__}.union(*(table.__struct_fields__ for table in TABLES.values())))
RULE_NAMES = [rule.name for rule in RULES]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORDS = st.sampled_from(
    [
        "10m",
        "0s",
        "-1s",
        "*",
        "hashtext",
        "int",
        "md5-32",
        "session",
        "off",
        "critical",
        "1/2/3",
        "7,8",
        "${A}",
        "all",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats()
    | TEXT
    | WORDS
    | st.dates().map(lambda date: msgspec.Raw(str(date).encode()))
)


def tables(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(KEYS + RULE_NAMES) | TEXT, values, max_size=5)


VALUES = st.recursive(SCALARS, lambda values: st.lists(values, max_size=4) | tables(values), max_leaves=12)
"""Anything in any place."""


DURATIONS = st.sampled_from(["0s", "250ms", "10m", "1h30m", "2 d 3 h"])
LIKELY: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("max_held", "max_wait", "interval", "every", "heartbeat", "min_held"), DURATIONS),
    "key": st.integers(-9, 9) | st.lists(st.integers(-9, 9) | st.just("*"), max_size=2),
    "scheme": st.sampled_from(sorted(SCHEMES)),
    "scope": st.sampled_from(["session", "transaction"]),
    "severity": st.sampled_from(["off", "info", "warning", "critical"]),
    "threshold": DURATIONS | st.integers(-1, 60) | st.floats(0, 2),
    **dict.fromkeys(("long_lived", "read_tables"), st.booleans()),
}


def shaped(heading: str) -> st.SearchStrategy[dict[str, Any]]:
    """A table with keys that it knows, most of them with a likely value."""
    keys = TABLES[heading].__struct_fields__
    values = {key: LIKELY.get(key, TEXT.filter(bool)) for key in keys}
    likely = {key: value for key, value in values.items() if key in {"name", "dsn"}}
    optional = {key: value for key, value in values.items() if key not in likely}
    return st.fixed_dictionaries(likely, optional=optional) | st.fixed_dictionaries(
        {}, optional={key: value | SCALARS for key, value in values.items()}
    )


DOCUMENTS = tables(VALUES) | st.fixed_dictionaries(
    {},
    optional={
        "defaults": shaped("[defaults]"),
        "jobs": st.lists(shaped("[[jobs]]"), max_size=3),
        "rules": st.dictionaries(st.sampled_from(RULE_NAMES), shaped("[rules.NAME]"), max_size=3),
        "targets": st.lists(shaped("[[targets]]"), max_size=3),
    },
)


def toml(value: object) -> str:
    if isinstance(value, dict):
        pairs = (f"{quoted(key)} = {toml(inner)}" for key, inner in value.items() if inner is not None)
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(toml(inner) for inner in value if inner is not None)}]"
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    if isinstance(value, float):
        return repr(value)
    return quoted(value) if isinstance(value, str) else json.dumps(value)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def check(content: bytes, directory: Path) -> None:
    """Load `content` as a given file and as one that was found."""
    for name, given_file in (("own.toml", True), ("pglock-inspect.toml", False)):
        file = directory / name
        file.write_bytes(content)
        try:
            settings = load_settings(config=file if given_file else None, environ={}, cwd=directory)
        except ConfigError as error:
            assert str(error).isprintable()  # noqa: PT017
            assert str(error).startswith(f"{file}: ")  # noqa: PT017
        else:
            msgspec.json.encode(settings.jobs)
            assert given_file or not settings.targets
        file.unlink()


@settings(deadline=None)  # the first example imports
@given(document=DOCUMENTS)
def test_documents(document: dict[str, Any], directory: Path) -> None:
    lines = (f"{quoted(key)} = {toml(value)}\n" for key, value in document.items() if value is not None)
    check("".join(lines).encode(), directory)


@settings(deadline=None)  # the first example imports
@given(cut=st.integers(0, len(COMPLETE)), length=st.integers(0, 9), inserted=TEXT)
def test_a_good_file_with_a_slip(cut: int, length: int, inserted: str, directory: Path) -> None:
    check((COMPLETE[:cut] + inserted + COMPLETE[cut + length :]).encode(), directory)


@settings(deadline=None)  # the first example imports
@given(content=st.binary() | TEXT.map(str.encode))
def test_any_bytes(content: bytes, directory: Path) -> None:
    check(content, directory)

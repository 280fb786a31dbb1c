"""Whatever is typed or piped in as a name, a key or a line of a log, the answer is a sentence or a table."""

from __future__ import annotations

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, NamedTuple, Self

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.cli.app import run
from pglock_inspect.errors import InvalidKey
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.names.mentions import mentions
from pglock_inspect.schemes import SCHEMES
from tests.support.any_reports import TEXTS
from tests.support.fuzzing import bounded, fuzzed

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = st.one_of(
    st.integers(-(2**64), 2**64),
    st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**32, 2**63 - 1, 2**63, -(2**63), 10**40]),
).map(str)
PASTED = st.one_of(
    NUMBERS,
    st.lists(NUMBERS, min_size=2, max_size=4).flatmap(
        lambda parts: st.sampled_from([",", "/", ", ", ":"]).map(lambda between: between.join(parts))
    ),
)
LOGGED = st.builds(
    "{} {} waits for {} on advisory lock [{}]{}; blocked by process {}.{}".format,
    st.sampled_from(["Process", "process", "DETAIL:  Process", ""]),
    NUMBERS,
    st.sampled_from(["ExclusiveLock", "ShareLock", "?"]),
    st.lists(NUMBERS, min_size=3, max_size=5).map(",".join),
    TEXTS,
    NUMBERS,
    st.sampled_from(["", "\n\tProcess 17: SELECT pg_advisory_lock(1)", "\n" * 9]),
)


class Repeated(str):  # noqa: SLOT000
    """A text many times over, told in short."""

    told: str

    def __new__(cls, text: str, times: int) -> Self:
        made = super().__new__(cls, text * times)
        made.told = f"{text!r} * {times}"
        return made

    def __repr__(self) -> str:
        return self.told


REPEATED = st.builds(
    Repeated,
    st.sampled_from(["Process 1 ", "[1,2,3,", "\tProcess 1: ", " ", "9", "[", "Process 1 waits for "]),
    st.integers(1, 5_000),
)
INPUT = st.one_of(TEXTS, PASTED, LOGGED, REPEATED, st.lists(LOGGED, max_size=4).map("\n".join))
OPTIONS = st.lists(
    st.sampled_from(["--format", "json", "--scheme", *sorted(SCHEMES), "--", "-", "--help", "-1", "--dsn"]),
    max_size=3,
)
ARGUMENTS = st.lists(INPUT.map(lambda text: text.replace("\0", "")), max_size=3)  # no NUL reaches a program


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def nowhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nowhere")


def said(nowhere: Path, *arguments: str, stdin: str = "") -> Said:
    """What a command says that no server is named to."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), bounded():
        for name in [name for name in os.environ if name.startswith(("PG", "DATABASE_URL"))]:
            patch.delenv(name)
        patch.setenv("HOME", str(nowhere))
        patch.chdir(nowhere)
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8", "surrogatepass"))))
        code = run(arguments)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return Said(code, *texts)


def assert_answered(said: Said) -> None:
    assert said.code in {0, 3}
    for line in (said.out + said.err).split("\n"):
        assert line.isprintable(), repr(line)
    assert "unforeseen" not in said.err
    assert "Traceback" not in said.err
    assert said.out or said.err


@fuzzed
@given(options=OPTIONS, names=ARGUMENTS)
def test_names(options: list[str], names: list[str], nowhere: Path) -> None:
    assert_answered(said(nowhere, "key", *options, *names))


@fuzzed
@given(options=OPTIONS, texts=ARGUMENTS, stdin=INPUT)
def test_what_is_to_be_identified(options: list[str], texts: list[str], stdin: str, nowhere: Path) -> None:
    assert_answered(said(nowhere, "identify", *options, *texts, stdin=stdin))


@fuzzed
@given(INPUT)
def test_as_json_it_is_one_document(nowhere: Path, text: str) -> None:
    found = said(nowhere, "identify", "--format", "json", stdin=text)
    if found.code == 0:
        json.loads(found.out)


@fuzzed
@given(INPUT)
def test_what_is_taken_for_a_key_is_one(text: str) -> None:
    with bounded():
        try:
            keys = {mention.key for mention in mentions(text)}
        except InvalidKey:
            return
        assert keys == {AdvisoryKey.parse("/".join(map(str, key))) for key in keys}

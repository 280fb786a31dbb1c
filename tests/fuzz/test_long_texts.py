"""However long a text from outside is, and whatever it repeats: no pattern tries it all over again."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from pglock_inspect.ages import _is_one_plain_statement
from pglock_inspect.config.address import parse_address
from pglock_inspect.durations import parse_duration
from pglock_inspect.findings.vacuum_held_back import _ONE_SNAPSHOT
from pglock_inspect.findings.words import last_command
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Session
from pglock_inspect.names.mentions import mentions
from pglock_inspect.names.words import words_of_application, words_of_statement
from pglock_inspect.present.cells import wrap
from pglock_inspect.present.meaning import names_job
from pglock_inspect.present.page.rows import _steps
from pglock_inspect.present.text import one_line
from pglock_inspect.serve.exposition import negotiate
from tests.support.fuzzing import bounded

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH = 200_000  # a statement may have a million characters, what is piped into `identify` ten


def of_session(function: Callable[[Session], object]) -> Callable[[str], object]:
    return lambda text: function(Session(1, state="active", query=text))


READERS: dict[str, Callable[[str], object]] = {
    "log": mentions,
    "key": AdvisoryKey.parse,
    "duration": parse_duration,
    "address": parse_address,
    "job": names_job,
    "statement": words_of_statement,
    "application": words_of_application,
    "command": of_session(last_command),
    "plain": of_session(_is_one_plain_statement),
    "snapshot": _ONE_SNAPSHOT.fullmatch,
    "line": one_line,
    "wrapped": lambda text: list(wrap(one_line(text), 80)),
    "steps": lambda text: list(_steps(f"do this: SELECT {text}", None)),
    "formats": negotiate,
}
REPEATED = [
    *(" ", "\n", "-", "--\n", "-- ", "/*", "/**/", "*", "'", "''", '"', "$", "$$", "\\", "(", ")", ";", "; "),
    *("9", "1h", "1 h ", "a", "a ", "A,", ":", "[", "[1,2,3,", "1,", "E'", "pglock-inspect ", "x'", ", "),
    *("Process 1 ", "Process 1: ", "\tProcess 1: x\n", "process 1 waits for ShareLock on advisory lock "),
    *("call", " do ", "\u202e", "\ud800", "version=", "hashtext('a')"),
]


@pytest.mark.parametrize("end", ["", "!", ";\nx"], ids=["", "mark", "line"])
@pytest.mark.parametrize("reader", READERS)
def test_a_long_text_takes_no_longer_than_its_length(reader: str, end: str) -> None:
    for text in REPEATED:
        with bounded(text), suppress(ValueError):
            READERS[reader]((text * LENGTH)[:LENGTH] + end)

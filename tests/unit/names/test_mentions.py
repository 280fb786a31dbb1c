from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pglock_inspect.errors import InvalidKey
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.names.mentions import Mention, mentions

DEADLOCK = """\
ERROR:  deadlock detected
DETAIL:  Process 4711 waits for ExclusiveLock on advisory lock [16391,0,42,1]; blocked by process 4712.
\tProcess 4712 waits for ShareLock on advisory lock [16391,7,43,2]; blocked by process 4711.
\tProcess 4711: SELECT pg_advisory_lock(42)
\tProcess 4712: SELECT pg_advisory_lock_shared(7, 43)
HINT:  See server log for query details.
"""


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("42", AdvisoryKey(0, 42, 1)),
        ("-1957215242", AdvisoryKey(4294967295, 2337752054, 1)),
        ("7, -1", AdvisoryKey(7, 4294967295, 2)),
        ("4294967295/2337752054/1", AdvisoryKey(4294967295, 2337752054, 1)),
    ],
)
def test_a_key_alone_is_a_mention(text: str, key: AdvisoryKey) -> None:
    assert mentions(text) == (Mention(key),)


@pytest.mark.parametrize(
    "line",
    [
        "advisory lock [16391,0,42,1]",
        "LOG:  acquired something on advisory lock [16391,0,42,1] after 3 ms",
        "DÉTAIL : verrou informatif [16391,0,42,1]",
    ],
)
def test_a_line_in_any_language_shows_the_database_and_the_key(line: str) -> None:
    assert mentions(line) == (Mention(AdvisoryKey(0, 42, 1), database=16391),)


def test_a_log_line_tells_who_waited_in_which_mode() -> None:
    line = "LOG:  process 17 still waiting for ExclusiveLock on advisory lock [5,0,1,1] after 1000.1 ms"
    assert mentions(line) == (Mention(AdvisoryKey(0, 1, 1), database=5, pid=17, mode="ExclusiveLock"),)


def test_a_deadlock_report_tells_every_process_with_its_statement() -> None:
    assert mentions(DEADLOCK) == (
        Mention(AdvisoryKey(0, 42, 1), 16391, 4711, "ExclusiveLock", 4712, "SELECT pg_advisory_lock(42)"),
        Mention(
            AdvisoryKey(7, 43, 2), 16391, 4712, "ShareLock", 4711, "SELECT pg_advisory_lock_shared(7, 43)"
        ),
    )


@given(st.text())
def test_any_text_mentions_locks_or_is_refused(text: str) -> None:
    try:
        found = mentions(text)
    except InvalidKey:
        return
    assert found


def test_halves_that_no_server_shows_are_refused() -> None:
    with pytest.raises(InvalidKey, match="unsigned 32-bit"):
        mentions("advisory lock [1,9999999999,0,1]")

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings, strategies as st

from pglock_inspect.names.words import Words, words_of_application, words_of_statement


@pytest.mark.parametrize(
    ("statement", "texts"),
    [
        ("SELECT pg_advisory_lock(hashtext('send_daily_digest'))", ("send_daily_digest",)),
        ("select pg_try_advisory_lock(hashtext('it''s'))", ("it's",)),
        (r"SELECT pg_advisory_lock(hashtext(E'it\'s\ta\x41\u00e9\\'))", ("it's\taAé\\",)),
        ("SELECT pg_advisory_lock(hashtext($$nightly$$))", ("nightly",)),
        ("SELECT pg_advisory_lock(hashtext($tag$nightly$tag$))", ("nightly",)),
        ("SELECT pg_advisory_lock(hashtext('a'), hashtext('b'))", ("a", "b")),
        ("SELECT pg_advisory_lock(hashtext('tenant:' || 42))", ("tenant:", "tenant:42")),
        ("SELECT pg_advisory_lock(hashtext('a'::text || '-' || 'b'))", ("a", "-", "a-", "b", "a-b")),
        ("DO $$ BEGIN PERFORM pg_advisory_lock(hashtext('inside')); END $$", ("inside",)),
        ("DO $x$ BEGIN PERFORM f($1, 'inside'); END $x$", ("inside",)),
        ("SELECT pg_try_advisory_lock(1, 0) /* nightly job */", ("nightly job", "nightly", "job")),
        ("SELECT pg_advisory_lock(7) -- job:nightly", ("job:nightly", "job", "nightly")),
        ("SELECT pg_advisory_lock($1)", ()),
        ("SELECT pg_advisory_lock(42)", ()),
        ("SELECT \"it's\" FROM t WHERE pg_advisory_lock(hashtext('name'))", ("name",)),
        ("SELECT pg_advisory_lock(hashtext('whole')), 'cut off in the mid", ("whole",)),
        ("SELECT '' || ''", ()),
        ("", ()),
    ],
)
def test_literals_and_comments_are_heard(statement: str, texts: tuple[str, ...]) -> None:
    heard = words_of_statement(statement).texts
    assert tuple(text for text in heard if text in texts) == texts
    assert len(heard) <= len(texts) + 1  # the body of a DO is a literal as well


def test_what_stands_in_a_call_of_a_hash_comes_first() -> None:
    far = ", ".join(f"'value {n}'" for n in range(100))
    statement = f"WITH list AS (SELECT {far}) SELECT pg_advisory_lock(hashtext('the name'))"
    assert words_of_statement(statement).texts[0] == "the name"


def test_seeds_are_heard_with_their_sign() -> None:
    statement = "SELECT pg_advisory_lock(hashtextextended('a', -42)), pg_sleep(7)"
    assert words_of_statement(statement) == Words(("a",), (-42, 7))
    assert words_of_statement("SELECT hashtext('a'), 42").seeds == ()


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("worker", ("worker",)),
        ("app: nightly_report", ("app: nightly_report", "app", "nightly_report")),
        ("sidekiq 7 [nightly|eu]", ("sidekiq 7 [nightly|eu]", "sidekiq", "7", "nightly", "eu")),
        (" ", ()),
    ],
)
def test_an_applications_name_is_heard_whole_and_in_parts(name: str, texts: tuple[str, ...]) -> None:
    assert words_of_application(name).texts == texts


LONG = 1_000_000
HOSTILE = {
    "quotes": "'" * LONG,
    "open escapes": "E'\\" * (LONG // 3),
    "backslashes": "E'" + "\\" * LONG,
    "open dollars": "$a" * (LONG // 2),
    "many tags": "".join(f"$a{n}$" for n in range(LONG // 7)),
    "a long tag": "$" + "a" * LONG,
    "open comments": "/*" * (LONG // 2),
    "stars": "/*" + "*" * LONG,
    "line comments": "--" * (LONG // 2),
    "identifiers": '"' * LONG,
    "joined": "'a'||" * (LONG // 5),
    "digits": "hashtextextended(" + "1" * LONG,
    "seeds": "hashtextextended('',1" * (LONG // 20),
    "words": "md5 " * (LONG // 4),
    "one word": "a" * LONG,
    "blanks": "'" + " " * LONG + "::",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_megabyte_of_anything_takes_no_time(text: str) -> None:
    began = time.process_time()
    heard = [words_of_statement(text), words_of_application(text)]
    assert time.process_time() - began < 1
    assert all(len(words.texts) <= 50 and len(words.seeds) <= 50 for words in heard)
    assert all(len(one) <= 200 for words in heard for one in words.texts)


PARTS = ["'", "''", "E'", "$$", "$a$", "/*", "*/", "--", "\n", "||", "::text", "hashtext(", "\\", '"', "7"]
SQL = st.lists(st.sampled_from(PARTS) | st.text(max_size=5)).map("".join)


@settings(max_examples=500)
@given(statement=SQL, name=st.from_regex(r"\A[a-z:_ ]{1,30}\Z"))
def test_any_text_is_heard_and_does_not_drown_what_came_before(statement: str, name: str) -> None:
    assert len(words_of_statement(statement).texts) <= 50
    call = f"SELECT pg_advisory_lock(hashtext('{name}'))"
    assert name in words_of_statement(f"SELECT 1; {call} {statement}").texts

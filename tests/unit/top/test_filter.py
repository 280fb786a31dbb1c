from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.model import Name
from pglock_inspect.top import views
from pglock_inspect.top.filter import Facts, terms_of
from pglock_inspect.top.view import Row, Sight, matching
from tests.support.reports import HOLDER, PREPARED, SESSION, make_report

LOCKS = views.load("locks")
OTHER = replace(
    HOLDER,
    name=Name("reindex", "config"),
    session=replace(SESSION, user="Search", application_name="Sidekiq", client="hidden", query="hidden"),
    database="shop",
)
SIGHT = Sight(make_report(HOLDER, OTHER, PREPARED))


def found(typed: str) -> list[object]:
    rows = [Row(SIGHT, lock) for lock in SIGHT.report.locks]
    return [row.item for row in matching(LOCKS, rows, typed)]


@pytest.mark.parametrize(
    "typed",
    [
        *(
            "REINDEX",
            "search",
            "sidekiq",
            "Shop",
            " reindex ",
            "^rein",
            "r.*x$",
            "(re|no)index",
            "search shop",
        ),
        *(
            "job:REIN",
            "user:^search$",
            "application:side",
            "app:side",
            "database:shop",
            "db:shop",
            "APP:side",
        ),
        *("job:rein db:shop", "job:", "localhost reindex", "target:local job:rein"),
    ],
)
def test_finds_by_job_user_application_and_database(typed: str) -> None:
    assert OTHER in found(typed)
    assert (HOLDER in found(typed)) == (typed == "job:")


@pytest.mark.parametrize(
    "typed",
    ["hidden", "job:shop", "user:sidekiq", "reindex nothing", "db:^hop", "target:db", "(reindex", "more:"],
)
def test_does_not_find_elsewhere(typed: str) -> None:
    assert found(typed) == []


def test_without_words_all_is_there() -> None:
    assert found("  ") == [HOLDER, OTHER, PREPARED]


@pytest.mark.parametrize("typed", ["7,-42", "billing", "transfer-17", "user:billing", "job:7,-42"])
def test_finds_what_has_no_name_by_its_key_and_prepared_transactions_by_owner_and_gid(typed: str) -> None:
    assert found(typed) == [PREPARED]


@given(
    st.text(st.characters(blacklist_categories=("Z", "C")), min_size=1).filter(lambda text: ":" not in text)
)
def test_any_word_finds_itself_whatever_it_means_as_an_expression(word: str) -> None:
    assert all(term.fits(Facts(job=f"a {word} b")) for term in terms_of(word))

"""The snippets of SQL and Python that no other test takes from their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from jsonschema import Draft202012Validator

from tests.support.pages import DOCS, blocks, snippets

if TYPE_CHECKING:
    from tests.docs.stage import Stage

STATEMENTS = [
    statement.strip()
    for page in ("findings.md", "hanging-deploy.md", "poolers.md")
    for text in snippets(page, "sql")
    for statement in text.split(";")
    if statement.strip(" \n") and not statement.strip().startswith("--")
]
# Run by the tests of the lock helper, of stamps, of serve, and of Prometheus.
ELSEWHERE = {"lock.md", "stamps.md", "scaling.md"}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_runs(stage: Stage, statement: str) -> None:
    with psycopg.connect(stage.dsn) as connection:
        assert connection.execute(statement.encode()).statusmessage


def test_the_schema_is_where_the_page_says() -> None:
    (snippet,) = snippets("json.md", "python")
    names: dict[str, Any] = {}
    exec(snippet, names)
    Draft202012Validator.check_schema(names["schema"])


def test_a_transaction_is_safe_through_a_pooler(stage: Stage) -> None:
    (snippet,) = snippets("poolers.md", "python")
    ran = []
    with psycopg.connect(stage.dsn) as conn:
        exec(
            snippet.replace("send_daily_digest", "another"),
            {"conn": conn, "send_digest": lambda: ran.append(1)},
        )
    assert ran == [1]


def test_no_other_page_has_snippets_of_its_own() -> None:
    here = {"findings.md", "hanging-deploy.md", "poolers.md", "json.md"}
    have = {
        page.name
        for page in DOCS.glob("*.md")
        if {block.language for block in blocks(page)} & {"sql", "python"}
    }
    assert have == here | ELSEWHERE

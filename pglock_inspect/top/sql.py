"""Statements in the colors of their parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pglock_inspect.present.spans import Meaning, Span


def highlighted(statement: str) -> list[Span]:
    """Return one inert line of SQL as spans: key words, literals and comments stand out."""
    from pygments.lexers.sql import PostgresLexer  # noqa: PLC0415 - not before there is a statement
    from pygments.token import Comment, Keyword, Literal  # noqa: PLC0415

    meanings: dict[object, Meaning] = {Comment: "quiet", Keyword: "strong", Literal: "good"}

    def meaning(token: object) -> Meaning:
        return next((meanings[kind] for kind in meanings if token in kind), "text")  # type: ignore[operator]

    lexer = PostgresLexer(stripnl=False, ensurenl=False)
    return [(text, meaning(token)) for token, text in lexer.get_tokens(statement)]

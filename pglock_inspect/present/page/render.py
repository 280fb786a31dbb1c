"""The page as a document."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from pglock_inspect.model import seconds_between, to_instant
from pglock_inspect.present.page.assets import VERSION
from pglock_inspect.present.page.view import page_of
from pglock_inspect.present.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.model import Report

_INDENTATION = re.compile(r"^\s+", re.MULTILINE)


def render(
    reports: Sequence[Report],
    *,
    queries: bool,
    ages: Sequence[float] | None = None,
    interval: float = 2.0,
    targets: int | None = None,
) -> str:
    """Return the page of the latest report of each target.

    ``queries`` shows what sessions run. ``ages`` are the seconds since each report came, by default as the
    server's clock and the one here tell; one is due every ``interval`` seconds.
    ``targets`` is how many there are, where these are some of them.
    """
    if ages is None:
        now = to_instant(datetime.now(UTC))
        ages = [max(seconds_between(report.taken_at, now), 0.0) for report in reports]
    of = len(reports) if targets is None else targets
    page = page_of(reports, ages, queries=queries, interval=interval, of=of)
    return _templates().get_template("page.html").render(page=page, version=VERSION)


class _Unindented(Extension):
    """Takes the indentation out of templates: of many rows it would be the most part."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        del name, filename
        return _INDENTATION.sub("", source)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("pglock_inspect.present.page", "files"),
        autoescape=True,
        finalize=_inert,
        undefined=StrictUndefined,
        extensions=[_Unindented],
        trim_blocks=True,
    )


def _inert(value: object) -> object:
    """Make each text that a template shows inert, whichever template that is."""
    return one_line(value) if isinstance(value, str) and not isinstance(value, Markup) else value

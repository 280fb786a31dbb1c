"""The pictures of the documentation."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from docs.pictures.__main__ import HERE, PICTURES
from docs.pictures.drawing import draw
from tests.support.reports import HOLDER, PREPARED, STALE, WAITER, make_report

PAGES = [HERE.parents[1] / "README.md", *HERE.parent.glob("*.md")]


def words_in(svg: str) -> str:
    return " ".join("".join(text.itertext()) for text in ET.fromstring(svg).iter())


async def test_a_picture_shows_the_view_that_keys_open_and_loads_nothing() -> None:
    report = make_report(WAITER, PREPARED, HOLDER, findings=(STALE,))
    svg = await draw([report], ("4",))
    assert "FINDINGS" in words_in(svg)
    assert "#ff7b7b" in svg  # critical, whatever the terminal that it is drawn in
    assert re.findall(r"https?:[^\"']*|url\((?!#)|@import|<script", svg) == ["http://www.w3.org/2000/svg"]


@pytest.mark.parametrize("name", PICTURES)
def test_each_picture_is_there_and_loads_nothing(name: str) -> None:
    svg = (HERE / f"{name}.svg").read_text("utf-8")
    assert name.upper() in words_in(svg)
    assert re.findall(r"https?:[^\"']*|url\((?!#)|@import|<script", svg) == ["http://www.w3.org/2000/svg"]


def test_pages_show_each_picture_by_a_path_that_is_there() -> None:
    shown = {
        (page.parent / path).resolve()
        for page in PAGES
        for path in re.findall(r"!\[[^]]+\]\(([^)]+\.svg)\)", page.read_text("utf-8"))
    }
    assert shown == {HERE / f"{name}.svg" for name in PICTURES}
    assert (HERE / "locks.svg") in {
        HERE.parents[1] / path for path in re.findall(r"\(([^)]+\.svg)\)", PAGES[0].read_text("utf-8"))
    }

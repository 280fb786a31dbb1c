"""The page as HTML: inert whatever it shows, small whatever there is, within its own policy."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import Job, JobState, Name, Totals
from pglock_inspect.present.page import ASSETS, CONTENT_SECURITY_POLICY, render
from tests.support.any_reports import failures, reports
from tests.support.reports import HOLDER, SERVER, SESSION, STALE, UNREACHABLE, WAITER, make_report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pglock_inspect.model import Report

REPORT = replace(
    make_report(HOLDER, WAITER, findings=(STALE,)), jobs=(JobState(Job("send_daily_digest"), "app", held=1),)
)
VOID = {"meta", "link"}
HOSTILE = {
    "markup": "</b><script>alert(1)</script><img src=x onerror=alert(1)>",
    "quotes": "\"' onmouseover=alert(1) x='",
    "template": "{{ 7 * 7 }}{% raw %}",
    "entity": "&lt;b&gt;&#x1b;",
    "bidi": "\u202etxt.exe\u2066",
    "escapes": "\x1b[2J\x1b]0;title\x07",
    "nul": "a\x00b",
    "surrogate": "\ud800\udcff",
    "invisible": "a\u200b\u3164\u00ad",
    "lines": "a\r\n\u2028b",
}


class Document(HTMLParser):
    """What a page consists of; fails on tags that do not match."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice: {attrs}"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def tags(self) -> Counter[str]:
        return Counter(tag for tag, _ in self.elements)

    @property
    def words(self) -> str:
        return " ".join(self.text.split())


def document(*of: Report, queries: bool = True) -> Document:
    return Document(render(of, queries=queries, ages=[1.0] * len(of)))


def hostile(text: str) -> Report:
    """A report that says the text wherever something from outside is shown."""
    session = replace(SESSION, user=text, application_name=text, client=text, query=text, wait_event=text)
    named = Name(text, "query", job=Job(text))
    lock = replace(HOLDER, name=named, session=session, database=text)
    return replace(
        make_report(lock, replace(WAITER, database="other", session=session)),
        target=text,
        server=replace(SERVER, version=text, database=text),
        findings=(
            replace(STALE, job=text, summary=text, evidence=text, suggestion=f"end it: SELECT {text}"),
        ),
        jobs=(JobState(Job(text), text, held=1), JobState(Job("free"), "other")),
        totals={text: Totals(1, 0), "other": Totals(0, 1)},
    )


def assert_inert(html: str) -> None:
    odd = {c for c in html if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n"}
    assert not odd
    html.encode()


# --- Inert --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_shown_as_text(text: str) -> None:
    plain, shown = document(hostile("plain")), document(hostile(text))
    assert shown.tags == plain.tags
    assert [{*attributes} for _, attributes in shown.elements] == [
        {*attributes} for _, attributes in plain.elements
    ]
    assert_inert(render([hostile(text)], queries=True))
    assert_inert(render([replace(UNREACHABLE, target=text, error=text)] * 2, queries=True))


def test_hostile_text_reads_as_the_terminal_shows_it() -> None:
    words = document(hostile("\x1b[2J\u202ea\x00<i>")).words
    assert words.count(r"\x1b[2J\u202ea\x00<i>") > 10


@given(st.lists(st.one_of(reports(), failures()), max_size=3), st.booleans())
def test_any_report_makes_a_sound_page(some: Sequence[Report], queries: bool) -> None:  # noqa: FBT001
    html = render(some, queries=queries)
    assert_inert(html)
    ids = [attributes["id"] for _, attributes in Document(html).elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_queries_are_left_out_unless_they_are_asked_for() -> None:
    report = make_report(replace(HOLDER, session=replace(SESSION, query="SELECT secret()")))
    assert "secret" in document(report).words
    assert "secret" not in render([report], queries=False)


def test_what_to_do_reads_as_a_sentence_and_its_commands_as_they_are_typed() -> None:
    suggestion = "see it: pglock-inspect why 17, or end it: pglock-inspect kill 17 --cancel"
    html = render([make_report(findings=(replace(STALE, suggestion=suggestion),))], queries=False)
    assert suggestion in Document(html).words
    assert '<code class="command">pglock-inspect kill 17 --cancel</code>' in html


# --- Small --------------------------------------------------------------------------------------------


def test_huge_text_is_cut() -> None:
    assert len(render([hostile("x" * 1_000_000)], queries=True)) < 100_000


def test_a_hundred_thousand_locks_make_a_small_page() -> None:
    def list_locks(most: int | None) -> tuple[object, ...]:
        assert most is not None, "nobody can look at all of them"
        return tuple(replace(HOLDER, name=None, key=AdvisoryKey.from_bigint(key)) for key in range(most))

    report = replace(REPORT, list_locks=list_locks, totals={"app": Totals(100_000, 0, 100_000)})
    html = render([report], queries=True)
    assert len(html) < 60_000
    assert "and 99,988 more, which pglock-inspect ls lists" in html


def test_two_hundred_targets_are_one_line_each() -> None:
    shown = document(*[replace(REPORT, target=f"db-{number}") for number in range(200)])
    assert (shown.tags["details"], shown.tags["summary"]) == (200, 200)
    assert not any("open" in attributes for _, attributes in shown.elements)


# --- For everybody ------------------------------------------------------------------------------------


def test_it_keeps_to_its_policy() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    for tag, attributes in document(REPORT, UNREACHABLE).elements:
        assert tag not in {"style", "iframe", "object", "form", "base"}
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert tag != "script" or attributes["src"]
        for name in ("src", "href"):
            assert not re.match(r"\w+:|//", attributes.get(name) or "")


def test_its_files_are_there_and_named_by_what_is_in_them() -> None:
    shown = document(REPORT)
    asked = [
        path
        for _, attributes in shown.elements
        if (path := attributes.get("src") or attributes.get("href") or "").startswith("assets/")
    ]
    names = {path.removeprefix("assets/").partition("?")[0] for path in asked}
    assert names == {"style.css", "page.js", "favicon-critical.svg"}
    assert len({path.partition("?")[2] for path in asked}) == 1
    assert names <= set(ASSETS)
    for content, kind in ASSETS.values():
        assert content
        assert kind.partition(";")[0] in {"text/css", "text/javascript", "image/svg+xml"}


@pytest.mark.parametrize(
    ("report", "icon"),
    [(REPORT, "critical"), (make_report(), "good"), (UNREACHABLE, "quiet"),
     (make_report(findings=(replace(STALE, severity="warning"),)), "warning")],
)  # fmt: skip
def test_a_tab_shows_how_things_are(report: Report, icon: str) -> None:
    assert f"favicon-{icon}.svg" in ASSETS
    assert f"assets/favicon-{icon}.svg?" in render([report], queries=False, ages=[0.0])


def test_its_structure_can_be_heard() -> None:
    shown = document(REPORT)
    (html,) = (attributes for tag, attributes in shown.elements if tag == "html")
    assert html["lang"] == "en"
    assert shown.tags["table"] == shown.tags["caption"] == 2
    headings = [attributes for tag, attributes in shown.elements if tag == "th"]
    assert headings
    assert all(attributes.get("scope") in {"col", "row"} for attributes in headings)
    meters = [attributes for tag, attributes in shown.elements if tag == "meter"]
    assert meters
    assert all(attributes["aria-label"] for attributes in meters)
    assert (shown.tags["h1"], shown.tags["main"]) == (1, 1)


def test_it_refreshes_itself_without_a_script() -> None:
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in render([REPORT], queries=False)
    slow = render([REPORT], queries=False, interval=12.4)
    assert '<noscript><meta http-equiv="refresh" content="13"></noscript>' in slow
    assert 'data-refresh="12.4"' in slow


def test_one_server_of_several_leads_to_the_others_and_back() -> None:
    odd = replace(REPORT, target="a&b c/d")
    links = [attributes["href"] for tag, attributes in document(odd, REPORT).elements if tag == "a"]
    assert links == ["?target=a%26b%20c%2Fd", "?target=localhost%3A5432"]
    assert '<a href=".">all 3 servers</a>' in render([odd], queries=False, targets=3)
    assert "<a " not in render([odd], queries=False)


def test_few_servers_show_their_troubles_unfolded() -> None:
    shown = document(replace(make_report(), target="calm"), REPORT)
    unfolded = ["open" in attributes for tag, attributes in shown.elements if tag == "details"]
    assert unfolded == [True, False]  # the worst first

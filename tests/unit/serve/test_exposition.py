"""The metrics of several targets, put together of what was made for each."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from prometheus_client import generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

from pglock_inspect.model import Counters, Report, Tally
from pglock_inspect.present.prometheus import Reports
from pglock_inspect.serve.exposition import exposition, negotiate
from pglock_inspect.serve.target import Latest
from tests.support.any_reports import failures, reports
from tests.support.fleets import read_samples
from tests.support.reports import HOLDER, UNREACHABLE, make_report

PLAIN = negotiate("")
OPENMETRICS = negotiate("application/openmetrics-text;version=1.0.0")
HELD = Counters({"connect": 3}, {"digest": {"app": Tally(2, (0, 1, *[0] * 8), 4.5)}})


def shown(*reports: Report) -> str:
    return exposition([Latest(report) for report in reports], PLAIN).decode()


@settings(deadline=None)  # others work beside it
@given(st.lists(st.one_of(reports(), failures()), min_size=1, max_size=4))
def test_it_is_what_would_be_made_of_all_at_once(several: list[Report]) -> None:
    several = [replace(report, target=f"target {number}") for number, report in enumerate(several)]
    assert read_samples(shown(*several)) == read_samples(
        generate_latest(Reports(several, counters=True)).decode()
    )


@given(st.one_of(reports(), failures()))
def test_of_one_target_it_is_byte_by_byte_what_the_library_makes(report: Report) -> None:
    report = replace(report, counters=HELD)
    made = Reports([report], counters=True)
    assert exposition([Latest(report)], PLAIN) == generate_latest(made)
    assert exposition([Latest(report)], OPENMETRICS) == openmetrics.generate_latest(made)  # type: ignore[no-untyped-call]


def test_no_family_is_there_twice() -> None:
    text = shown(make_report(HOLDER), UNREACHABLE, replace(make_report(), target="other"))
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert len(heads) == len(set(heads))


def test_openmetrics_ends_once() -> None:
    text = exposition([Latest(make_report()), Latest(UNREACHABLE)], OPENMETRICS)
    assert text.count(b"# EOF\n") == 1
    assert text.endswith(b"# EOF\n")


def test_what_was_counted_is_there_while_the_server_is_not() -> None:
    text = shown(replace(UNREACHABLE, counters=HELD, read_at=make_report().taken_at, poll_seconds=0.25))
    values = {
        (sample.name, *(value for name, value in sample.labels if name in {"reason", "le"})): value
        for sample, value in read_samples(text).items()
    }
    assert values["pglock_up",] == 0
    assert values["pglock_last_poll_timestamp_seconds",] == 1796004000.123456
    assert values["pglock_poll_failures_total", "connect"] == 3
    assert values["pglock_poll_failures_total", "timeout"] == 0
    assert values["pglock_job_observed_holds_total",] == 2
    assert values["pglock_job_observed_hold_seconds_bucket", "1.0"] == 0
    assert values["pglock_job_observed_hold_seconds_bucket", "5.0"] == 1
    assert values["pglock_job_observed_hold_seconds_bucket", "+Inf"] == 1
    assert values["pglock_job_observed_hold_seconds_sum",] == 4.5


def test_a_format_is_made_once_for_each_report() -> None:
    latest = Latest(make_report(HOLDER))
    assert exposition([latest], PLAIN) == exposition([latest], PLAIN)
    exposition([latest], OPENMETRICS)
    assert latest.made.keys() == {PLAIN.content_type, OPENMETRICS.content_type}


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain;version=0.0.4", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=0.0.1", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=x", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_formats(accept: str, content_type: str) -> None:
    assert negotiate(accept).content_type == content_type


@settings(deadline=None)  # others work beside it
@given(
    st.lists(
        st.sampled_from(
            [
                "application/openmetrics-text",
                "text/plain",
                ";",
                ",",
                "version=",
                "escaping=",
                "1.0.0",
                "1.0.1",
                "99",
            ]
        )
    ).map("".join)
)
def test_whatever_is_asked_for_the_formats_are_few(accept: str) -> None:
    content_type = negotiate(accept).content_type
    assert "version=1.0.0;" in content_type or "version=0.0.4;" in content_type


def test_a_login_that_hangs_counts_as_a_time_out() -> None:
    failed = Counters({"login_hangs": 2, "timeout": 3})
    text = shown(replace(UNREACHABLE, counters=failed))
    assert re.search(r'^pglock_poll_failures_total{.*"timeout".*} 5\.0$', text, re.MULTILINE)
    assert "login_hangs" not in text

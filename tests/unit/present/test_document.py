from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from msgspec.structs import replace

import pglock_inspect
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.present import json as json_format, jsonl
from pglock_inspect.present.paper import Paper
from pglock_inspect.present.verdict import judge
from tests.support.any_reports import TEXTS, failures, reports
from tests.support.reports import HOLDER, PREPARED, STALE, UNREACHABLE, WAITER, make_report

SCHEMA = json.loads((Path(pglock_inspect.__file__).parent / "data" / "report.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


def document_of(text: str) -> Any:  # noqa: ANN401
    return json.loads(text, parse_constant=pytest.fail)


def test_the_schema_is_a_schema() -> None:
    VALIDATOR.check_schema(SCHEMA)


def test_a_report_is_this_document_in_this_order() -> None:
    text = json_format.once([make_report(HOLDER, WAITER, PREPARED, findings=(STALE,))], Paper())
    document = document_of(text)
    assert list(document) == [
        "schema_version",
        "target",
        "taken_at",
        "server",
        "capacity",
        "locks",
        "findings",
    ]
    assert document["taken_at"] == "2026-11-30T02:00:00.123456Z"
    assert document["capacity"] == {"lock_slots_guaranteed": 7040, "locks": 31}
    holder, waiter, prepared = document["locks"]
    assert json.dumps(holder) == json.dumps(
        {
            "key": {
                "database": "app",
                "classid": 4294967295,
                "objid": 2337752054,
                "objsubid": 1,
                "form": "bigint",
                "value": -1957215242,
            },
            "job": "send_daily_digest",
            "name_source": "config",
            "scheme": "hashtext",
            "product": None,
            "mode": "ExclusiveLock",
            "granted": True,
            "scope": None,
            "session": {
                "pid": 4711,
                "backend_start": "2026-11-29T22:58:00.123456Z",
                "user": "app",
                "application_name": "worker-3",
                "client": "10.0.0.7:51234",
                "state": "idle",
                "xact_start": None,
                "query_start": "2026-11-30T01:17:59.123456Z",
                "state_change": "2026-11-30T01:18:00.123456Z",
                "wait_event": "Client/ClientRead",
                "backend_type": "client backend",
                "query": "COMMIT",
            },
            "prepared": None,
            "held": {"seconds": 2520.0, "at_least": 2520.0, "at_most": 10920.0, "evidence": "session_state"},
            "waited_seconds": None,
            "max_held": 600.0,
            "blocked_by": [],
            "waiters": 1,
            "findings": ["stale"],
        }
    )
    assert (waiter["held"], waiter["waited_seconds"], waiter["blocked_by"]) == (None, 720.0, [4711])
    assert prepared["session"] is None
    assert prepared["prepared"]["gid"] == "transfer-17"
    assert (prepared["key"]["form"], prepared["key"]["value"]) == ("pair", [7, -42])
    assert list(document["findings"][0]) == [
        *("rule", "severity", "job", "pid", "key", "summary", "evidence", "suggestion")
    ]


def test_a_server_that_could_not_be_read_has_the_same_keys() -> None:
    document = document_of(json_format.once([UNREACHABLE], Paper()))
    assert document == {
        "schema_version": 1,
        "target": "db.example.org:5432",
        "taken_at": "2026-11-30T02:00:00.123456Z",
        "server": None,
        "capacity": {"lock_slots_guaranteed": None, "locks": None},
        "locks": [],
        "findings": [],
        "error": UNREACHABLE.error,
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(2**53, None), (2**53 + 1, "9007199254740993"), (-(2**63), "-9223372036854775808"), (-5, None)],
)
def test_a_value_that_a_double_would_round_is_given_as_text(value: int, text: str | None) -> None:
    lock = replace(HOLDER, key=AdvisoryKey.from_bigint(value))
    key = document_of(json_format.once([make_report(lock)], Paper()))["locks"][0]["key"]
    assert key["value"] == value
    assert key.get("value_text") == text


def test_those_ahead_in_the_queue_are_told_where_the_server_was_asked() -> None:
    lock = replace(WAITER, queued_behind=(4719, "gid"))
    asked, unasked = document_of(json_format.once([make_report(lock, WAITER)], Paper()))["locks"]
    assert asked["queued_behind"] == [4719, "gid"]
    assert "queued_behind" not in unasked


@given(st.one_of(reports(), failures()))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_report_fits_the_schema(report: Any) -> None:  # noqa: ANN401
    VALIDATOR.validate(document_of(json_format.once([report], Paper())))
    VALIDATOR.validate(document_of(json_format.judged([judge(report)])))
    for line in jsonl.once([report], Paper()).splitlines():
        assert document_of(line)["taken_at"]


@given(TEXTS)
def test_json_is_ascii_without_control_characters_and_well_formed(text: str) -> None:
    shown = json_format.dump({"text": text.encode("utf-8", "replace").decode()})
    assert shown.isascii()
    assert shown.isprintable()
    assert document_of(shown) == {"text": text.encode("utf-8", "replace").decode()}


def test_several_targets_make_an_array() -> None:
    documents = document_of(json_format.once([make_report(), UNREACHABLE], Paper()))
    assert [document["target"] for document in documents] == ["localhost:5432", "db.example.org:5432"]


def test_while_watching_each_document_is_a_line() -> None:
    first, second = json_format.stream([[make_report(HOLDER)], [make_report(), UNREACHABLE]], Paper())
    assert document_of(first)["locks"]
    assert [document_of(line)["server"] is None for line in second.splitlines()] == [False, True]


def test_json_lines_are_locks_with_their_target_and_time() -> None:
    lines = jsonl.once([make_report(HOLDER, WAITER), UNREACHABLE], Paper()).splitlines()
    locks = [document_of(line) for line in lines]
    assert [lock["session"]["pid"] for lock in locks] == [4711, 4720]
    assert list(locks[0])[:3] == ["target", "taken_at", "key"]
    assert jsonl.once([make_report()], Paper()) == ""

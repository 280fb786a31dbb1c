"""Whatever rows a server shows, every presenter can show what was made of them."""

from __future__ import annotations

import json
import unicodedata
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import jsonschema
import msgspec
import pytest
from hypothesis import given, strategies as st

from pglock_inspect import watch
from pglock_inspect.errors import Refused
from pglock_inspect.kill.choose import order_for_holder, order_for_process
from pglock_inspect.present import (
    csv,
    github,
    json as json_format,
    jsonl,
    junit,
    nagios,
    prometheus,
    table,
    why,
)
from pglock_inspect.present.account import accounts
from pglock_inspect.present.glyphs import ASCII
from pglock_inspect.present.look import Look
from pglock_inspect.present.page import render
from pglock_inspect.present.paper import Paper
from pglock_inspect.present.verdict import judge
from pglock_inspect.recording import Recorder, Recording
from pglock_inspect.serve.exposition import exposition, negotiate
from pglock_inspect.serve.target import Latest
from pglock_inspect.state import State
from pglock_inspect.top import views
from pglock_inspect.top.feed import Feed
from pglock_inspect.top.layout import lay_out
from pglock_inspect.top.past import Past
from pglock_inspect.top.rows import Locks
from pglock_inspect.top.sections import lines_of
from pglock_inspect.top.status import banner, counts_line, title_line
from pglock_inspect.top.view import Sight, rows_of
from pglock_inspect.watch import Watcher
from tests.support.any_polls import SETTINGS, polls
from tests.support.any_reports import failures, reports
from tests.support.fleets import read_samples
from tests.support.fuzzing import bounded, fuzzed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pglock_inspect.config import Settings
    from pglock_inspect.model import Report, Snapshot

SCHEMA = jsonschema.Draft202012Validator(
    json.loads((files("pglock_inspect") / "data" / "report.schema.json").read_text())
)
LOOKS = [Look(), Look(ASCII, "ascii"), Look(encoding="latin-1")]
VIEWS = [views.load(name) for name in views.NAMES]


class Servers:
    """Stands in for the reader, with one snapshot after another."""

    target, usable, connection = "db:5432", True, None

    def __init__(self, snapshots: Iterable[Snapshot]) -> None:
        self.snapshots = iter(snapshots)

    def __call__(self, _: str, *, clock: object) -> Servers:
        del clock
        return self

    def read(self) -> Snapshot:
        return next(self.snapshots)

    def close(self) -> None:
        pass


class NoLookups:
    problem = None

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def ask(self, *_: object) -> None:
        pass


def watched(snapshots: Sequence[Snapshot], settings: Settings, *, handed_on: int) -> list[Report]:
    """What is reported; after so many polls, by a process that goes on from a state file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "Reader", Servers(snapshots))
        patch.setattr(watch, "Lookups", NoLookups)
        watcher = Watcher("host=db", settings)
        reports = [watcher.poll() for _ in snapshots[:handed_on]]
        state = msgspec.json.decode(msgspec.json.encode(watcher.state), type=State)
        watcher = Watcher("host=db", settings, state=state)
        return reports + [watcher.poll() for _ in snapshots[handed_on:]]


def assert_clean(text: str, look: Look) -> None:
    """Fail if a terminal would do anything about a text but show it."""
    for line in text.split("\n"):
        assert line.isprintable(), repr(line)
    text.encode(look.encoding, "strict" if look.encoding == "ascii" else "backslashreplace")


def show_as_text(report: Report, paper: Paper) -> None:
    verdict = judge(report)
    told = [("here", accounts(report, [(lock.database, lock.key) for lock in report.locks]))]
    for text in (
        table.once([report], paper),
        *table.stream([[report], [report]], paper),
    ):
        assert_clean(text, paper.look)
    for text in (why.as_text(told, paper), nagios.judged([verdict]), github.judged([verdict])):
        assert_clean(text, Look())
    for text in (csv.once([report], paper), junit.judged([verdict]), why.as_json(told)):
        text.encode()
        odd = {character for character in text if unicodedata.category(character) in {"Cc", "Cs"}}
        assert odd <= {"\n", "\r"}
    for text in (json_format.once([report], paper), json_format.judged([verdict])):
        SCHEMA.validate(json.loads(text))
    for line in jsonl.once([report], paper).splitlines():
        json.loads(line)


def show_to_machines(report: Report) -> None:
    html = render([report], queries=True)
    assert not {c for c in html if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}} - {"\n"}
    for accept in ("", "application/openmetrics-text;version=1.0.0"):
        exposition([Latest(report)], negotiate(accept))
    read_samples(exposition([Latest(report)], negotiate("")).decode())
    read_samples(prometheus.judged([judge(report)]).decode())


def show_on_screen(reports: Sequence[Report], look: Look, cells: int) -> None:
    past, feed = Past(), Feed("db:5432", now=0.0)
    for report in reports:
        sight = Sight(report, Locks(report.alike), past.note(report) if report.server else ())
        feed.receive(sight, 0.0)
    lines = [
        title_line([feed], cells, look, interval=2.0, now=1.0),
        counts_line([feed], cells, look),
        banner([feed], 2.0, 1.0, look),
    ]
    sights = [feed.sight] if feed.sight else []
    for view in VIEWS:
        for order in view.orders:
            rows = rows_of(view, sights, order)
        for row in rows[:3]:
            view.facts(row.item), view.record(row), view.lock_of(row), view.title(row.item)
            lines += lines_of(view.describe(row, look), cells)
            lines += [place.column.cell(row.item, place.width, look) for place in lay_out(view.plan, cells)]
    for line in lines:
        assert_clean("".join(text for text, _ in line), look)


def choose_whom_to_kill(report: Report) -> None:
    for lock in report.locks:
        for wanted in (None, "cancel", "terminate"):
            try:
                if lock.pid is None:
                    order_for_holder(report, [lock], "it", wanted)
                else:
                    order_for_process(report, lock.pid, wanted)
            except Refused:
                pass


def show(reports: Sequence[Report], paper: Paper) -> None:
    for report in reports:
        show_as_text(report, paper)
        show_to_machines(report)
        choose_whom_to_kill(report)
    show_on_screen(reports, paper.look, paper.width or 80)


PAPERS = st.tuples(st.sampled_from(LOOKS), st.none() | st.integers(20, 200)).map(lambda drawn: Paper(*drawn))


@fuzzed
@given(polls(), SETTINGS, st.integers(0, 3), PAPERS)
def test_any_rows_are_reported_and_shown(
    snapshots: list[Snapshot], settings: Settings, handed_on: int, paper: Paper
) -> None:
    with bounded():
        show(watched(snapshots, settings, handed_on=handed_on), paper)


@fuzzed
@given(st.lists(st.one_of(reports(), reports(), failures()), min_size=1, max_size=3), PAPERS)
def test_any_report_is_shown(some: list[Report], paper: Paper) -> None:
    with bounded():
        show(some, paper)


@fuzzed
@given(polls(), SETTINGS)
def test_any_rows_are_recorded_and_read_again(snapshots: list[Snapshot], settings: Settings) -> None:
    reports = watched(snapshots, settings, handed_on=len(snapshots))
    with bounded(), TemporaryDirectory() as directory:
        path = Path(directory) / "night.rec"
        with Recorder(path, queries=True) as recorder:
            for report in reports:
                recorder.write([report])
        with Recording.open(path) as recording:
            for index, report in enumerate(reports):
                (again,) = recording.poll(index)
                assert table.once([again], Paper()) == table.once([report], Paper())
                assert csv.once([again], Paper()) == csv.once([report], Paper())

"""Recordings: what was written is read again, wherever the file is cut, at any time of it."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from pglock_inspect.errors import BadRecording
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import (
    Blocked,
    Counters,
    Database,
    Held,
    HoldGroup,
    Instant,
    Job,
    JobState,
    Limits,
    LockRows,
    Name,
    Prepared,
    Report,
    Sighting,
    Tally,
    Totals,
    to_instant,
)
from pglock_inspect.present.evidence import findings_of
from pglock_inspect.present.selection import Selection
from pglock_inspect.recording import Recorder, Recording
from pglock_inspect.recording.line import line_of, read_line
from pglock_inspect.recording.member import Kind, pack
from pglock_inspect.recording.moment import parse_moment
from pglock_inspect.recording.parts import parts_of, report_of
from pglock_inspect.recording.scan import HEADING
from tests.support.any_reports import failures, reports
from tests.support.presented import presented
from tests.support.reports import HOLDER, NOW, PREPARED, SESSION, STALE, UNREACHABLE, WAITER, ago, make_report

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pglock_inspect.model import Severity
    from pglock_inspect.recording.parts import Parts

OTHER_NAME = Name(
    text="digest",
    source="known",
    scheme="hashtext",
    product="product",
    job=Job("digests", match="digest*"),
    scope="session",
    long_lived=True,
    maybe=True,
)
ANY = st.one_of(reports(), failures())
BUSY = make_report(HOLDER, WAITER, PREPARED, findings=(STALE,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "night.rec"


def later(report: Report, seconds: float) -> Report:
    """The same some seconds later: nothing happened, and everything is older."""

    def older(age: float | None) -> float | None:
        return None if age is None else age + seconds

    locks = [
        replace(
            lock,
            held=lock.held
            and Held(
                older(lock.held.seconds),
                older(lock.held.at_least),
                older(lock.held.at_most),
                lock.held.evidence,
            ),
            waited_seconds=older(lock.waited_seconds),
        )
        for lock in report.locks
    ]
    now = Instant(report.taken_at + round(seconds * 1_000_000))
    return replace(report, taken_at=now, read_at=now, list_locks=lambda _: tuple(locks))


def written_and_read(polls: Sequence[Sequence[Report]], *, queries: bool = True) -> list[list[Report]]:
    """Polls through their lines, each as what changed since the one before it."""
    before, read = None, []
    known: list[Parts] = []
    for poll in polls:
        parts = [parts_of(report, queries=queries) for report in poll]
        known = read_line(line_of(parts, before), known)
        read.append([*map(report_of, known)])
        before = parts
    return read


def record(path: Path, *polls: Sequence[Report], queries: bool = True) -> None:
    with Recorder(path, queries=queries) as recorder:
        for poll in polls:
            recorder.write(poll)


def good(path: Path) -> int:
    """The number of polls, a second apart, of a recording of which nothing is damaged."""
    try:
        recording = Recording.open(path)
    except BadRecording as error:
        if "is empty: nothing was recorded yet" in str(error):
            return 0
        raise
    with recording:
        assert recording.problem is None
        last = len(recording) - 1
        assert recording.poll(last)[0].locks == later(BUSY, last).locks
        return len(recording)


# --- What is read is what was written -----------------------------------------------------------------


@given(st.lists(st.tuples(ANY, ANY), min_size=1, max_size=3))
@settings(deadline=None, max_examples=50)
def test_any_report_is_shown_as_it_was(polls: list[tuple[Report, Report]]) -> None:
    for poll, read in zip(polls, written_and_read(polls), strict=True):
        assert [*map(presented, read)] == [*map(presented, poll)]


def test_nothing_of_a_report_is_lost() -> None:
    job = Job("send_daily_digest", AdvisoryKey(1, 2, 1), limits=Limits(600.0), every=86_400.0)
    whole = replace(
        BUSY,
        counters=Counters({"timeout": 2}, {"send_daily_digest": {"app": Tally(3, (1, 2), 4.5)}}),
        jobs=(JobState(job, "app", 1, 2, 1, 2_520.0, 720.0, NOW), JobState(job, None, last_held=ago(90))),
        totals={"app": Totals(2, 1, 1)},
        chain={
            4711: Blocked(4711, SESSION, "a lock", 12.5, (9, 0)),
            9: Blocked(9),
        },
        databases={5: Database(5, "app"), 6: Database(6, "old", "LATIN1")},
        list_locks=lambda _: (
            replace(HOLDER, name=OTHER_NAME),
            WAITER,
            replace(PREPARED, queued_behind=(7, "gid")),
        ),
    )
    ((read,),) = written_and_read([[whole]])
    assert read.locks == whole.locks
    assert replace(read, list_locks=whole.list_locks) == whole
    lost = replace(UNREACHABLE, failing_since=ago(30), read_at=ago(60), poll_seconds=0.5)
    ((read,),) = written_and_read([[lost]])
    assert replace(read, list_locks=lost.list_locks) == lost


def test_a_finding_is_about_the_same_locks() -> None:
    def group(pid: int | None, *keys: int, gid: str | None = None) -> HoldGroup:
        rows = LockRows(pid, "3/7", 5, 1, "ExclusiveLock", granted=True, keys=frozenset({1, 2, 3}))
        prepared = None if gid is None else Prepared(gid, NOW)
        return HoldGroup(rows, frozenset(keys), (), Sighting(NOW, 1), prepared=prepared)

    one, two, mine = group(4711, 1, 2), group(None, 2, gid="transfer"), frozenset({1, 2})
    found = (
        replace(STALE, rule="stale", key=None, about=((one, mine), (two, frozenset({2})))),
        replace(STALE, rule="unnamed", key=None, about=((one, mine),)),
        replace(STALE, rule="prepared", key=None, about=((one, frozenset({3})),)),
    )
    locks = [
        replace(HOLDER, key=AdvisoryKey(0, objid, 1), findings=("stale", "unnamed", "prepared"), pid=pid)
        for objid in (1, 2, 3)
        for pid in (4711, 99)
    ]
    locks.append(replace(PREPARED, key=AdvisoryKey(0, 2, 1), mode="ExclusiveLock", findings=("stale",)))
    locks[-1] = replace(locks[-1], prepared=Prepared("transfer", NOW))
    report = make_report(*locks, findings=found)
    ((read,),) = written_and_read([[report]])
    rules = [[finding.rule for finding in findings_of(lock, report)] for lock in locks]
    assert [[finding.rule for finding in findings_of(lock, read)] for lock in read.locks] == rules
    assert rules == [["stale", "unnamed"], [], ["stale", "unnamed"], [], ["prepared"], [], ["stale"]]
    wanted = Selection(databases=frozenset({"nowhere"}))
    assert wanted.of(read).findings == wanted.of(report).findings == ()


def test_locks_that_differ_in_their_key_alone_are_one_row_of_which_some_can_be_had() -> None:
    many = [replace(HOLDER, key=AdvisoryKey(0, number, 1), waiters=0) for number in range(500)]
    report = make_report(*many, WAITER, HOLDER)
    parts = parts_of(report, queries=True)
    assert len(parts.rows["locks"]) == 3
    assert report_of(parts).locks == report.locks
    assert report_of(parts).list_locks(2) == (*many[:2], WAITER, HOLDER)


def test_query_text_is_written_only_if_asked_for(path: Path) -> None:
    secret = replace(HOLDER, session=replace(SESSION, query="SELECT 'secret'"))
    report = replace(make_report(secret), chain={4711: Blocked(4711, secret.session)})
    record(path, [report], queries=False)
    assert b"secret" not in gzip.decompress(path.read_bytes())
    with Recording.open(path) as recording:
        assert recording.poll(0)[0].locks[0].session == replace(SESSION, query=None)
    record(path, [report])
    assert b"secret" in gzip.decompress(path.read_bytes())


# --- How much is written ------------------------------------------------------------------------------


def test_where_nothing_happens_next_to_nothing_is_written() -> None:
    many = [
        replace(HOLDER, key=AdvisoryKey(0, n, 1), pid=n, session=replace(SESSION, pid=n))
        for n in range(1_000)
    ]
    report = make_report(*many, WAITER, PREPARED)
    first, second = (parts_of(poll, queries=True) for poll in (report, later(report, 2.000001)))
    line = line_of([second], [first])
    assert len(line) < 200
    (read,) = map(report_of, read_line(line, [first]))
    assert read.locks == later(report, 2.000001).locks


def test_what_changed_is_written_alone() -> None:
    many = [replace(HOLDER, key=AdvisoryKey(0, n, 1), waiters=n) for n in range(1, 101)]
    gone = [*many[:10], replace(many[10], mode="ShareLock"), *many[20:], WAITER]
    first, second = (parts_of(make_report(*locks), queries=True) for locks in (many, gone))
    line = line_of([second], [first])
    assert len(line) < 3 * max(map(len, first.rows["locks"]))
    assert [report.locks for report in map(report_of, read_line(line, [first]))] == [tuple(gone)]


# --- The file -----------------------------------------------------------------------------------------


def test_a_recording_is_for_its_owner_and_lines_that_anybody_can_read(path: Path) -> None:
    record(path, [BUSY], [later(BUSY, 2)])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    heading, whole, changes = gzip.decompress(path.read_bytes()).split(b"\n")[:3]
    assert msgspec.json.decode(heading) == {"file": "pglock-inspect recording", "version": 1}
    assert [*msgspec.json.decode(whole)] == ["whole"]
    assert [*msgspec.json.decode(changes)] == ["changes"]


def test_wherever_the_file_is_cut_what_came_before_is_there_and_can_be_gone_on_from(path: Path) -> None:
    polls = [[later(BUSY, number)] for number in range(3)]
    record(path, *polls)
    content = path.read_bytes()
    ends = []
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        ends.append(good(path))
        if cut % 11 == 0:
            record(path, [later(BUSY, 60)])
            with Recording.open(path) as recording:
                assert len(recording) == ends[-1] + 1
                assert recording.poll(ends[-1])[0].locks == later(BUSY, 60).locks
            assert gzip.decompress(path.read_bytes())
    assert ends == sorted(ends)
    assert sorted(set(ends)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "content",
    [b"no gzip at all", b"\x1f\x8b\x09", gzip.compress(b"something else"), HEADING[:9] + b"x" * 100],
    ids=["text", "gzip's beginning", "gzip", "damaged heading"],
)
def test_another_file_is_told_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for use in (Recording.open, Recorder):
        with pytest.raises(BadRecording, match="is no recording of pglock-inspect: name another file"):
            use(path)
    assert path.read_bytes() == content


def test_a_newer_version_is_told_and_left_alone(path: Path) -> None:
    newer = pack(b'{"file":"pglock-inspect recording","version":2}', Kind.HEADING, NOW)
    path.write_bytes(newer)
    for use in (Recording.open, Recorder):
        with pytest.raises(BadRecording, match=r"by a newer pglock-inspect \(format 2\)"):
            use(path)
    assert path.read_bytes() == newer


def test_what_is_no_file_or_is_not_there_is_told(path: Path) -> None:
    with pytest.raises(BadRecording, match=r"cannot be read \(No such file or directory\)"):
        Recording.open(path)
    with pytest.raises(BadRecording, match=r"cannot be written \(No such file or directory\)"):
        Recorder(path / "below")
    os.mkfifo(path)
    for use in (Recording.open, Recorder):
        with pytest.raises(BadRecording, match="is not a file"):
            use(path)
    for use in (Recording.open, Recorder):
        with pytest.raises(BadRecording, match=r"is not a file|\(Is a directory\)"):
            use(path.parent)


def test_two_do_not_record_to_one_file(path: Path) -> None:
    with Recorder(path), pytest.raises(BadRecording, match="is being recorded to: name another file"):
        Recorder(path)
    record(path, [BUSY])


def test_damage_in_the_middle_is_told(path: Path) -> None:
    record(path, *([later(BUSY, number)] for number in range(5)))
    with Recording.open(path) as recording:
        start = recording._index.starts[2]
    content = bytearray(path.read_bytes())
    content[start + 40] ^= 0xFF  # inside of a poll
    path.write_bytes(content)
    with Recording.open(path) as recording:
        assert recording.poll(1)[0].locks == later(BUSY, 1).locks
        for index in (2, 4):
            with pytest.raises(BadRecording, match="is damaged"):
                recording.poll(index)
    content[start] ^= 0xFF  # its header
    path.write_bytes(content)
    with Recording.open(path) as recording:
        assert len(recording) == 2
        assert recording.problem == f"{path} is damaged at byte {start}: what follows is not shown"
    with pytest.raises(BadRecording, match=f"is damaged at byte {start}: record to another file"):
        Recorder(path)


@given(st.data())
@settings(deadline=None, max_examples=200)
def test_no_damage_shows_what_was_not_so(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("damaged") / "night.rec"
    polls = [later(make_report(HOLDER), number) for number in range(4)]
    record(path, *([poll] for poll in polls))
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with suppress(BadRecording), Recording.open(path) as recording:
        for index in range(len(recording)):
            with suppress(BadRecording):
                (read,) = recording.poll(index)
                assert read.locks == polls[index].locks


def test_a_disk_that_is_full_leaves_what_was_recorded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    with Recorder(path) as recorder:
        recorder.write([BUSY])
        size = path.stat().st_size

        def full(file: int, content: bytes) -> int:
            monkeypatch.setattr(os, "write", fail)
            return real(file, content[:20])

        def fail(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(
            BadRecording, match=r"\(No space left on device\): what was recorded before is kept"
        ):
            recorder.write([later(BUSY, 1)])
        monkeypatch.setattr(os, "write", real)
        assert path.stat().st_size == size
        recorder.write([later(BUSY, 2)])
    with Recording.open(path) as recording:
        assert [report.taken_at - NOW for (report,) in recording] == [0, 2_000_000]


# --- At any time --------------------------------------------------------------------------------------


def test_any_poll_can_be_read_in_any_order(path: Path) -> None:
    polls = [[later(BUSY, number), replace(UNREACHABLE, taken_at=ago(-number))] for number in range(250)]
    record(path, *polls)
    with Recording.open(path) as recording:
        for index in (249, 0, 100, 99, 100, 101, 248, 3):
            first, second = recording.poll(index)
            assert first.locks == later(BUSY, index).locks
            assert second.error == UNREACHABLE.error
        assert (recording.first, recording.last) == (NOW, ago(-249))
        for seconds, index in ((-5, 0), (0, 0), (0.9, 0), (1, 1), (200.5, 200), (249, 249), (9_999, 249)):
            assert recording.index_at(ago(-seconds)) == index
        with pytest.raises(IndexError):
            recording.poll(250)


def test_the_number_of_targets_may_change(path: Path) -> None:
    record(path, [BUSY], [BUSY, UNREACHABLE], [UNREACHABLE])
    with Recording.open(path) as recording:
        assert [[report.target for report in poll] for poll in recording] == [
            [BUSY.target],
            [BUSY.target, UNREACHABLE.target],
            [UNREACHABLE.target],
        ]


def test_no_poll_is_decompressed_to_find_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path, *([later(BUSY, number)] for number in range(200)))
    with Recording.open(path) as recording:
        lines = []
        decompress = zlib.decompress

        def counted(member: bytes, wbits: int) -> bytes:
            lines.append(member)
            return decompress(member, wbits)

        monkeypatch.setattr(zlib, "decompress", counted)
        recording.poll(recording.index_at(ago(-105)))
    assert len(lines) == 6  # the whole one at 100, and what changed up to 105


def test_what_is_written_meanwhile_is_taken_in(path: Path) -> None:
    with Recorder(path, queries=True) as recorder:
        with pytest.raises(BadRecording, match="is empty: nothing was recorded yet"):
            Recording.open(path)
        recorder.write([BUSY])
        with Recording.open(path) as recording:
            recorder.write([later(BUSY, 1)])
            assert len(recording) == 1
            recording.refresh()
            assert len(recording) == 2
            assert recording.poll(1)[0].locks == later(BUSY, 1).locks


def test_a_clock_that_goes_back_loses_no_poll(path: Path) -> None:
    record(path, [later(BUSY, 10)], [BUSY], [later(BUSY, 20)])
    with Recording.open(path) as recording:
        assert [recording.index_at(ago(-seconds)) for seconds in (5, 10, 15, 20)] == [0, 1, 1, 2]


def test_the_next_finding_is_one_that_was_not_there_before(path: Path) -> None:
    calm = make_report(HOLDER)
    told_anew = replace(STALE, summary="has held it for 43 min")
    info, other = replace(STALE, rule="unnamed", severity="info"), replace(STALE, pid=9, severity="warning")
    lost = replace(UNREACHABLE, target=calm.target)
    polls = [
        calm,  # 0
        replace(calm, findings=(STALE,)),  # 1: new
        replace(calm, findings=(told_anew,)),
        replace(calm, findings=(told_anew, info)),  # 3: new, for information
        calm,
        replace(calm, findings=(STALE, other)),  # 5: new again, and the worst counts
        replace(lost, failing_since=lost.taken_at),  # 6: the server is lost
        replace(lost, failing_since=ago(2)),
        replace(calm, findings=(STALE, other)),  # as before
        replace(calm, findings=(replace(STALE, severity="info"), replace(other, pid=10))),  # 9: a warning
    ]
    record(path, *([poll] for poll in polls))
    with Recording.open(path) as recording:

        def after(index: int, least: Severity) -> list[int]:
            found = recording.next_finding(index, least)
            return [] if found is None else [found, *after(found, least)]

        assert after(0, "warning") == [1, 5, 6, 9]
        assert after(0, "info") == [1, 3, 5, 6, 9]
        assert after(0, "critical") == [1, 5, 6]
        assert recording.next_finding(9) is None
        assert [recording.previous_finding(index) for index in (9, 6, 5, 1)] == [6, 5, 1, None]


# --- Times as people write them -----------------------------------------------------------------------


@pytest.fixture
def night(path: Path) -> Iterator[Recording]:
    """From 23:59:50.5 to 00:00:20.5, a poll every second."""
    start = to_instant(datetime(2026, 11, 30, 23, 59, 50, 500_000, UTC))
    record(path, *([replace(BUSY, taken_at=Instant(start + second * 1_000_000))] for second in range(31)))
    with Recording.open(path) as recording:
        yield recording


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("23:59:50", 0),  # as it is shown
        ("23:59:51", 0),
        ("23:59:51.5", 1),
        ("00:00", 9),
        (" 00:00:20 ", 29),
        ("00:00:20.5", 30),
        ("00:00:21", 30),
        ("2026-12-01", 9),
        ("2026-12-01T00:00:05", 14),
        ("2026-12-01 01:00:05+01:00", 14),
        ("20261201T000005Z", 14),
        ("+0s", 0),
        ("+10s", 10),
        ("-0s", 30),
        ("-2.5s", 27),
        ("-30s", 0),
    ],
)
def test_a_time_means_the_last_poll_by_then(night: Recording, text: str, index: int) -> None:
    assert night.index_at(parse_moment(text, night)) == index


@pytest.mark.parametrize(
    "text", ["23:59:49", "00:01", "+32s", "-31s", "2001-01-01", "9999-12-31", "0001-01-01"]
)
def test_a_time_that_it_does_not_reach(night: Recording, text: str) -> None:
    with pytest.raises(BadRecording) as told:
        parse_moment(text, night)
    assert str(told.value) == (
        f"{night.path} does not reach {text}: it is from 2026-11-30 23:59:50 to 2026-12-01 00:00:20 UTC"
    )


@pytest.mark.parametrize(
    "text", ["", "noon", "5m", "+5", "-", "25:00", "1:00", "+1h\n\x1b[2J", "2026-11-31", "1764547200"]
)
def test_what_is_no_time(night: Recording, text: str) -> None:
    with pytest.raises(BadRecording, match="is no time: write 14:03, ") as told:
        parse_moment(text, night)
    assert str(told.value).isprintable()


# --- What a later version has to read -----------------------------------------------------------------


def test_a_recording_of_the_first_version_stays_readable() -> None:
    line = (
        b'{"whole":[{"target":"db","taken_at":1000000000,"server":{"version":"16.4","version_num":160004,'
        b'"database":"app"},"error":null,"failure":null,"failing_since":null,"read_at":1000000000,'
        b'"poll_seconds":0.5,"counters":{},"lock_table_rows":3,"totals":{"app":{"held":2}},'
        b'"databases":{"5":{"oid":5,"name":"app"}},"chain":[],"findings":[],"jobs":[],"groups":[],'
        b'"locks":[{"lock":{"key":[0,7,1],"database":"app","name":null,"mode":"ExclusiveLock","granted":true,'
        b'"scope":null,"pid":42,"session":{"pid":42},"prepared":null,"held":null,"waited_seconds":null,'
        b'"max_held":60.0},"keys":[[0,7,1],[0,8,1]],'
        b'"held":{"seconds":998000000,"at_least":1.5,"at_most":null,"evidence":"observed"}}]}]}'
    )
    (report,) = map(report_of, read_line(line, []))
    assert [(lock.key.value, lock.pid) for lock in report.locks] == [(7, 42), (8, 42)]
    assert report.locks[0].held == Held(2.0, 1.5, None, "observed")
    assert (report.target, report.totals["app"]) == ("db", Totals(2))

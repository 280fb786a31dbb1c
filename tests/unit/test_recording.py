"""Recordings: what was written is read again, wherever the file is cut, at any time of it."""

from __future__ import annotations

import gzip
import json
import os
import random
import stat
import zlib
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

import pglock_inspect
from pglock_inspect.errors import BadRecording
from pglock_inspect.keys import AdvisoryKey
from pglock_inspect.model import (
    Blocked,
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
    Session,
    Sighting,
    Totals,
    to_instant,
)
from pglock_inspect.present import json as json_format
from pglock_inspect.present.evidence import findings_of
from pglock_inspect.present.paper import Paper
from pglock_inspect.present.selection import Selection, count
from pglock_inspect.recording import Recorder, Recording
from pglock_inspect.recording.member import HEADER_SIZE, OURS, Header, pack, read_header, unpack
from pglock_inspect.recording.moment import parse_moment
from tests.support.any_reports import failures, reports
from tests.support.presented import presented
from tests.support.reports import HOLDER, NOW, PREPARED, SESSION, STALE, UNREACHABLE, WAITER, ago, make_report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pglock_inspect.model import Severity

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
SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(pglock_inspect.__file__).parent / "data" / "report.schema.json").read_text())
)
ANY = st.one_of(reports(), failures())


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


def as_read(report: Report) -> Report:
    """A report as it is made of a server, whose parts agree, less what no presenter shows."""
    sessions: dict[int, Session] = {}
    for lock in report.locks:
        if lock.session:
            session = replace(lock.session, database=lock.database, xmin_age=None)
            sessions.setdefault(session.pid, session)
    locks = tuple(
        replace(lock, pid=lock.session.pid, session=sessions[lock.session.pid]) if lock.session else lock
        for lock in report.locks
    )
    return replace(report, list_locks=lambda _: locks, totals=count(locks))


def written_and_read(*poll: Report, queries: bool = True) -> list[Report]:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "night.rec"
        record(path, poll, queries=queries)
        with Recording.open(path) as recording:
            return [*recording.poll(0)]


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


BUSY = as_read(make_report(HOLDER, WAITER, PREPARED, findings=(STALE,)))


# --- What is read is what was written -----------------------------------------------------------------


@given(ANY.map(as_read), ANY.map(as_read))
@settings(deadline=None, max_examples=50)
def test_any_report_is_shown_as_it_was(one: Report, other: Report) -> None:
    read = written_and_read(one, other)
    assert [*map(presented, read)] == [presented(one), presented(other)]


def test_nothing_of_a_report_is_lost() -> None:
    job = Job("send_daily_digest", AdvisoryKey(1, 2, 1), limits=Limits(600.0), every=86_400.0)
    whole = replace(
        BUSY,
        jobs=(JobState(job, "app", 1, 2, 1, 2_520.0, 720.0, NOW), JobState(job, None, last_held=ago(90))),
        totals={"app": Totals(3, 1, 1)},
        chain={
            4711: Blocked(4711, SESSION, "a lock", 12.5, (9, 0)),
            9: Blocked(9),
        },
        databases={5: Database(5, "app"), 6: Database(6, "old", "LATIN1")},
        list_locks=lambda _: (
            replace(HOLDER, name=OTHER_NAME),
            as_read(make_report(WAITER)).locks[0],
            replace(PREPARED, queued_behind=(7, "gid")),
            replace(HOLDER, pid=4712, session=None),
        ),
    )
    (read,) = written_and_read(whole)
    assert read.locks == whole.locks
    assert replace(read, list_locks=whole.list_locks) == whole
    lost = replace(UNREACHABLE, failing_since=ago(30), read_at=ago(60), poll_seconds=0.5)
    (read,) = written_and_read(lost)
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
        replace(
            HOLDER,
            key=AdvisoryKey(0, objid, 1),
            findings=("stale", "unnamed", "prepared"),
            pid=pid,
            session=replace(SESSION, pid=pid),
        )
        for objid in (1, 2, 3)
        for pid in (4711, 99)
    ]
    locks.append(replace(PREPARED, key=AdvisoryKey(0, 2, 1), mode="ExclusiveLock", findings=("stale",)))
    locks[-1] = replace(locks[-1], prepared=Prepared("transfer", NOW))
    report = make_report(*locks, findings=found)
    (read,) = written_and_read(report)
    rules = [[finding.rule for finding in findings_of(lock, report)] for lock in locks]
    assert [[finding.rule for finding in findings_of(lock, read)] for lock in read.locks] == rules
    assert rules == [["stale", "unnamed"], [], ["stale", "unnamed"], [], ["prepared"], [], ["stale"]]
    wanted = Selection(databases=frozenset({"nowhere"}))
    assert wanted.of(read).findings == wanted.of(report).findings == ()


def test_query_text_is_written_only_if_asked_for(path: Path) -> None:
    secret = replace(HOLDER, session=replace(SESSION, query="SELECT 'secret'"))
    report = replace(make_report(secret), chain={4711: Blocked(4711, secret.session)})
    record(path, [report], queries=False)
    text, more = unpack(path.read_bytes())
    assert b"secret" not in text + zlib.decompress(more)
    with Recording.open(path) as recording:
        (read,) = recording.poll(0)
    assert read.locks[0].session == read.chain[4711].session == replace(SESSION, query=None)
    (read,) = written_and_read(report)
    assert read.locks[0].session == read.chain[4711].session == secret.session


# --- The file -----------------------------------------------------------------------------------------


def test_a_recording_is_for_its_owner(path: Path) -> None:
    record(path, [BUSY])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@given(st.lists(st.lists(ANY, min_size=1, max_size=2), min_size=1, max_size=3))
@settings(deadline=None, max_examples=50)
def test_its_lines_are_the_documents_that_ls_prints(polls: list[list[Report]]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "night.rec"
        record(path, *polls)
        text = gzip.decompress(path.read_bytes()).decode("ascii")
    assert text == "\n".join([*json_format.stream(polls, Paper()), ""])
    for line in text.splitlines():
        SCHEMA.validate(json.loads(line))


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
    [
        b"no gzip at all",
        b"\x1f\x8b\x09",
        gzip.compress(b"something else"),
        pack(b"", b"", NOW)[:12] + b"x" * 100,
    ],
    ids=["text", "gzip's beginning", "gzip", "damaged header"],
)
def test_another_file_is_told_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for use in (Recording.open, Recorder):
        with pytest.raises(BadRecording, match="is no recording of pglock-inspect: name another file"):
            use(path)
    assert path.read_bytes() == content


def test_a_newer_version_is_told_and_left_alone(path: Path) -> None:
    newer = pack(b"{}\n", b"", NOW, version=2)
    path.write_bytes(newer)
    for use in (Recording.open, Recorder):
        with pytest.raises(
            BadRecording, match=r"recorded by a newer pglock-inspect \(format 2\): use that one"
        ):
            use(path)
    assert path.read_bytes() == newer


@pytest.mark.parametrize("size", [0, 1, 65_000, 65_535, 200_000])
def test_what_goes_with_a_text_unseen_may_be_of_any_size(size: int) -> None:
    more = random.Random(1).randbytes(size)
    poll = pack(b"text", more, NOW, "warning")
    assert read_header(poll) == Header(len(poll), NOW, "warning")
    assert unpack(poll) == (b"text", more)
    assert gzip.decompress(poll) == b"text"


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


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["deleted", "cut"])
def test_nothing_is_recorded_to_what_nobody_can_read(path: Path, harm: Callable[[Path], object]) -> None:
    with Recorder(path) as recorder:
        recorder.write([BUSY])
        harm(path)
        with pytest.raises(BadRecording, match="was deleted or cut short meanwhile: record anew"):
            recorder.write([later(BUSY, 1)])


def test_damage_in_the_middle_is_told(path: Path) -> None:
    record(path, *([later(BUSY, number)] for number in range(5)))
    with Recording.open(path) as recording:
        start = recording._index.starts[2]
    content = bytearray(path.read_bytes())
    content[start + HEADER_SIZE] ^= 0xFF  # inside of a poll
    path.write_bytes(content)
    with Recording.open(path) as recording:
        assert recording.poll(1)[0].locks == later(BUSY, 1).locks
        with pytest.raises(BadRecording, match=f"is damaged at byte {start}: choose another time"):
            recording.poll(2)
        assert recording.poll(3)[0].locks == later(BUSY, 3).locks
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
    polls = [later(as_read(make_report(HOLDER)), number) for number in range(4)]
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


def with_header(poll: bytes, place: int, content: bytes) -> bytes:
    """A poll whose header says something else there, and has the checksum of that."""
    header = bytearray(poll[:HEADER_SIZE])
    header[place : place + len(content)] = content
    header[-2:] = (zlib.crc32(header[len(OURS) : -2]) & 0xFFFF).to_bytes(2, "little")
    return bytes(header) + poll[HEADER_SIZE:]


@pytest.mark.parametrize(
    ("place", "content"), [(17, bytes(4)), (17, b"\x01\0\0\0"), (29, b"\x09")], ids=["no size", "1", "news"]
)
def test_a_header_that_none_writes_is_damage(path: Path, place: int, content: bytes) -> None:
    poll = pack(b"", b"", NOW)
    assert read_header(with_header(poll, 17, len(poll).to_bytes(4, "little"))) == Header(len(poll), NOW)
    assert read_header(with_header(poll, 29, b"\x01")) == Header(len(poll), NOW, "info")
    path.write_bytes(with_header(poll, place, content))
    with pytest.raises(BadRecording, match="is no recording of pglock-inspect"):
        Recording.open(path)
    path.write_bytes(poll + with_header(poll, place, content) + poll)
    with Recording.open(path) as recording:
        assert len(recording) == 1
        assert recording.problem == f"{path} is damaged at byte {len(poll)}: what follows is not shown"


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where there is something in a JSON value."""
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


@pytest.mark.parametrize(
    "other", ["x\x1b[31m", 5, -1, 1e308, 2**70, None, True, [], {}, [[1]], {"a": 1}], ids=repr
)
def test_whatever_somebody_wrote_into_it_is_shown_or_told(path: Path, other: object) -> None:
    record(path, [make_report(HOLDER, WAITER, PREPARED, findings=(STALE,))], queries=True)
    text, rest = unpack(path.read_bytes())
    for place in places(json.loads(text)):
        document = part = json.loads(text)
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = other
        path.write_bytes(pack(json.dumps(document).encode(), rest, NOW))
        with Recording.open(path) as recording:
            try:
                (report,) = recording.poll(0)
            except BadRecording as error:
                assert "is damaged at byte 0" in str(error)  # noqa: PT017 - it may also be shown
            else:
                assert "\x1b" not in "".join(each for each in presented(report) if isinstance(each, str))


def test_targets_are_those_of_the_polls_that_are_not_damaged(path: Path) -> None:
    here, there = (replace(make_report(HOLDER), target=name) for name in ("here", "there"))
    record(path, [here], [here], [there], [there])
    with Recording.open(path) as recording:
        starts = recording._index.starts
    content = bytearray(path.read_bytes())
    for damaged, targets in ((3, ["here", "there"]), (0, ["here", "there"]), (1, ["there"])):
        content[starts[damaged] + HEADER_SIZE] ^= 0xFF
        path.write_bytes(content)
        with Recording.open(path) as recording:
            assert recording.targets() == targets
    content[starts[2] + HEADER_SIZE] ^= 0xFF
    path.write_bytes(content)
    with Recording.open(path) as recording, pytest.raises(BadRecording, match="is damaged at byte 0"):
        recording.targets()


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


def test_no_other_poll_is_read_to_find_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(path, *([later(BUSY, number)] for number in range(200)))
    read = []

    def counted(poll: bytes) -> tuple[bytes, bytes]:
        read.append(poll)
        return unpack(poll)

    monkeypatch.setattr("pglock_inspect.recording.recording.unpack", counted)
    with Recording.open(path) as recording:
        recording.poll(recording.index_at(ago(-105)))
    assert len(read) == 1


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
        ("23:59:51", 1),
        ("23:59:51.5", 1),
        ("00:00", 10),
        (" 00:00:20 ", 30),
        ("00:00:20.5", 30),
        ("00:00:21", 30),
        ("2026-12-01", 10),
        ("2026-12-01T00:00:05", 15),
        ("2026-12-01 01:00:05+01:00", 15),
        ("20261201T000005Z", 15),
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

"""`record`, and what `ls`, `why` and `check` make of a recording: with a real server, and then with none."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path
from subprocess import run
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from msgspec.structs import replace

import pglock_inspect
from pglock_inspect.config import load_settings
from pglock_inspect.demo.server import TemporaryServer
from pglock_inspect.demo.workload import CONFIGURATION, SERVER_SETTINGS, Workload
from pglock_inspect.errors import BadRecording
from pglock_inspect.model import to_datetime
from pglock_inspect.recording import Recorder, Recording
from pglock_inspect.watch import Watcher
from tests.support.command import COMMAND, Pglock
from tests.support.presented import presented
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from datetime import datetime
    from subprocess import CompletedProcess

    from pglock_inspect.model import Lock
    from tests.support.servers import Connect

SCHEMA = jsonschema.Draft202012Validator(
    json.loads((Path(pglock_inspect.__file__).parent / "data" / "report.schema.json").read_text())
)
ONE_POLL = ("--for", "0s")
JOBS = """
[[jobs]]
name = "send_daily_digest"
max_held = "1ms"

[[jobs]]
name = "close_month"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "night.rec"


@pytest.fixture
def later(tmp_path_factory: pytest.TempPathFactory) -> Pglock:
    """The command where no server and no configuration is, and none could be asked."""
    return Pglock(tmp_path_factory.mktemp("later"), "host=/nowhere sslmode=nonsense")


def polls(file: Path) -> int:
    """The number of polls so far; 0 where there is none yet."""
    try:
        with Recording.open(file) as recording:
            return len(recording)
    except BadRecording:
        return 0


def moments(file: Path) -> list[datetime]:
    with Recording.open(file) as recording:
        return [to_datetime(recording.taken_at(index)) for index in range(len(recording))]


def document(done: CompletedProcess[str]) -> Any:  # noqa: ANN401
    return json.loads(done.stdout)


def test_what_was_held_is_told_when_nobody_holds_it_any_more(
    pglock: Pglock, later: Pglock, connect: Connect, file: Path
) -> None:
    pglock.directory.joinpath("pglock-inspect.toml").write_text(JOBS)
    holder, waiter = connect("worker-3"), connect("worker-1")
    holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    waiter.pgconn.send_query(b"SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    held = f"{holder.info.backend_pid}"
    wait_until(lambda: "waiting" in pglock("ls").stdout, "a waiter")
    first = pglock("record", str(file), "--every", "100ms", "--for", "500ms")
    assert first.stdout == ""
    assert f"recording to {file}\n" in first.stderr
    count = polls(file)
    assert count > 1
    assert first.stderr.endswith(f"recorded {count} polls to {file}\n")
    holder.close()
    waiter.close()
    wait_until(lambda: not pglock("ls", "--format", "jsonl").stdout, "nobody has a lock")
    pglock("record", str(file), *ONE_POLL)

    past = ("--replay", str(file))
    table = later("ls", *past, "--at", "+0s")
    assert "send_daily_digest  held" in table.stdout
    assert "send_daily_digest is stale: pid " + held in table.stdout
    assert "send_daily_digest" not in later("ls", *past).stdout
    then = document(later("ls", *past, "--at", "+0s", "--format", "json"))
    assert {lock["session"]["application_name"] for lock in then["locks"]} == {"worker-3", "worker-1"}
    assert {lock["session"]["query"] for lock in then["locks"]} == {None}
    account = later("why", "send_daily_digest", *past, "--at", "+0s")
    assert f"Held by   pid {held}, user " in account.stdout
    assert account.stderr == f"pglock-inspect: {file} at {moments(file)[0]:%Y-%m-%d %H:%M:%S} UTC\n"
    assert later("check", *past, "--at", "+0s", code=2).stdout.startswith(
        "PGLOCK CRITICAL - send_daily_digest is"
    )
    assert later("check", *past).stdout.startswith("PGLOCK OK - 0 held, 0 waiting")
    assert "is free" in later("why", "send_daily_digest", *past).stdout
    lines = later("ls", *past, "--at", "+0s", "--watch", "--format", "json").stdout.splitlines()
    assert [len(json.loads(line)["locks"]) for line in lines] == [2] * count + [0]


def test_every_kind_of_trouble_is_shown_as_it_was(file: Path) -> None:
    settings = load_settings(config=CONFIGURATION, environ={}, cwd=CONFIGURATION.parent)
    server = TemporaryServer(settings=SERVER_SETTINGS)
    with server, Workload(server) as workload, Watcher(workload.dsn(), settings) as watcher:
        reports = [workload.wait(watcher), *(watcher.poll() for _ in range(5))]
    with Recorder(file, queries=True) as recorder:
        for report in reports:
            recorder.write([report])
    with Recording.open(file) as recording:
        for (read,), report in zip(recording, reports, strict=True):
            assert presented(read) == presented(report)
            assert {finding.rule for finding in read.findings} > {"stale", "waiting-long", "holder-blocked"}
            assert read.locks == tuple(map(without_xmin_age, report.locks))
            for part in ("jobs", "totals", "chain", "databases", "lock_table_rows", "poll_seconds"):
                assert getattr(read, part) == getattr(report, part), part


def without_xmin_age(lock: Lock) -> Lock:
    return replace(lock, session=lock.session and replace(lock.session, xmin_age=None))


def test_zcat_shows_what_ls_printed_while_it_is_being_recorded(
    pglock: Pglock, connect: Connect, file: Path
) -> None:
    holder = connect("worker-3")
    holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    running = pglock.start("record", str(file), "--every", "100ms")
    wait_until(lambda: polls(file) > 2, "some polls")
    read = run(["zcat", str(file)], capture_output=True, text=True, check=True, timeout=60)
    running.kill()
    running.communicate(timeout=30)
    lines = read.stdout.splitlines()
    for line in lines:
        SCHEMA.validate(json.loads(line))
    past = ("ls", "--replay", str(file), "--at", "+0s", "--format", "json")
    assert pglock(*past, "--watch").stdout.splitlines()[: len(lines)] == lines
    first, now = json.loads(lines[0]), document(pglock("ls", "--format", "json"))
    assert first.keys() == now.keys()
    (recorded,), (live,) = first["locks"], now["locks"]
    assert recorded.keys() == live.keys()
    assert recorded["key"] == live["key"]
    assert recorded["session"] == live["session"] | {"query": None}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(pglock: Pglock, file: Path, number: signal.Signals) -> None:
    running = pglock.start("record", str(file), "--every", "100ms")
    wait_until(lambda: polls(file) > 2, "some polls")
    running.send_signal(number)
    _, talk = running.communicate(timeout=30)
    assert running.returncode == 0
    assert talk.endswith(f"recorded {polls(file)} polls to {file}\n")


def test_a_recorder_that_is_killed_loses_nothing_and_another_one_goes_on(pglock: Pglock, file: Path) -> None:
    running = pglock.start("record", str(file), "--every", "100ms")
    wait_until(lambda: polls(file) > 2, "some polls")
    busy = pglock("record", str(file), *ONE_POLL, code=3)
    assert f"{file} is being recorded to: name another file" in busy.stderr
    running.kill()
    running.communicate(timeout=30)
    before = polls(file)
    with file.open("ab") as half:
        half.write(file.read_bytes()[-200:-100])  # not the beginning of a poll
    assert f"{file} is damaged at byte " in pglock("record", str(file), *ONE_POLL, code=3).stderr
    content = file.read_bytes()[:-100]
    file.write_bytes(content[:-5])  # in the midst of the last poll
    pglock("record", str(file), *ONE_POLL)
    assert polls(file) == before


def test_a_full_disk_is_told_and_what_was_recorded_is_kept(pglock: Pglock, file: Path) -> None:
    command = shlex.join([*COMMAND, "record", str(file), "--every", "100ms"])
    environment = pglock.environment()
    unmeasured = {name: value for name, value in environment.items() if not name.startswith("COV")}
    done = run(
        ["sh", "-c", f"ulimit -f 4; exec {command}"],  # in blocks of 512 bytes: too few for coverage's data
        env=unmeasured,
        cwd=pglock.directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 3
    assert f"{file} cannot be written (File too large): what was recorded before is kept" in done.stderr
    assert "Traceback" not in done.stderr
    assert polls(file) > 2
    pglock("ls", "--replay", str(file))


def test_several_targets_and_one_that_is_away(
    pglock: Pglock, later: Pglock, connect: Connect, file: Path
) -> None:
    holder = connect("worker-3")
    holder.execute("SELECT pg_advisory_lock(42)")
    pglock.directory.joinpath("targets.toml").write_text(
        f"[[targets]]\nname = 'here'\ndsn = {json.dumps(pglock.dsn)}\n"
        "[[targets]]\nname = 'away'\ndsn = 'host=/nowhere'\n"
    )
    options = ("--config", "targets.toml", "--target", "all")
    told = pglock("record", str(file), *options, "--every", "100ms", "--for", "300ms").stderr
    assert told.count("/nowhere") == 1
    past = ("--replay", str(file))
    both = document(later("ls", *past, "--format", "json", code=3))
    assert [report["target"] for report in both] == ["here", "away"]
    assert "/nowhere" in both[1]["error"]
    (lock,) = document(later("ls", *past, "--target", "here", "--format", "json"))["locks"]
    assert lock["session"]["pid"] == holder.info.backend_pid
    assert "/nowhere" in later("check", *past, "--target", "away", code=3).stdout
    refused = later("ls", *past, "--target", "there", code=3).stderr
    assert f"there is no target 'there' in {file}: it has here, away" in refused


def test_a_server_that_never_answered_is_recorded_too(later: Pglock, file: Path) -> None:
    away = Pglock(later.directory, "host=/nowhere")
    done = away("record", str(file), *ONE_POLL, code=3)
    assert "/nowhere" in done.stderr
    assert polls(file) > 0
    assert "/nowhere" in later("ls", "--replay", str(file), code=3).stdout


@pytest.mark.parametrize(
    ("options", "query"), [((), None), (("--expose-queries",), "SELECT pg_advisory_lock(42)")]
)
def test_the_text_of_queries_is_recorded_if_asked_for(
    pglock: Pglock, connect: Connect, file: Path, options: tuple[str, ...], query: str | None
) -> None:
    holder = connect()
    holder.execute("SELECT pg_advisory_lock(42)")
    pglock("record", str(file), *ONE_POLL, *options)
    (lock,) = document(pglock("ls", "--replay", str(file), "--format", "json"))["locks"]
    assert lock["session"]["query"] == query
    assert lock["session"]["pid"] == holder.info.backend_pid


def test_a_time_is_one_that_the_recording_reaches(pglock: Pglock, later: Pglock, file: Path) -> None:
    pglock("record", str(file), "--every", "100ms", "--for", "2s")
    first, *_, last = moments(file)
    ls = ("ls", "--replay", str(file), "--format", "json")
    taken = [document(later(*ls, "--at", text))["taken_at"] for text in (f"{first:%H:%M:%S}", "+1s", "-0s")]
    assert taken == sorted(taken)
    assert taken[0][:19] == f"{first:%Y-%m-%dT%H:%M:%S}"
    assert taken[-1] == last.isoformat().replace("+00:00", "Z")
    told = later(*ls, "--at", "-1h", code=3).stderr
    assert f"{file} does not reach -1h: it is from {first:%Y-%m-%d %H:%M:%S} to " in told


def test_what_cannot_be_is_told_in_a_sentence(
    pglock: Pglock, later: Pglock, connect: Connect, file: Path
) -> None:
    holder = connect("send_daily_digest")
    holder.execute("SELECT pg_advisory_lock(hashtext('send_daily_digest'))")
    pglock("record", str(file), *ONE_POLL)
    past = ("--replay", str(file))
    for arguments, told in (
        (("ls", "--at", "+1m"), "--at is a time of a recording: give --replay FILE too"),
        (("ls", *past, "--dsn", "host=a"), "--dsn and --replay exclude each other"),
        (("check", *past, "--max-held", "1m"), "what was recorded was judged in its time: --max-held, "),
        (("check", *past, "--severity", "stale=off"), "what was recorded was judged in its time"),
        (("check", *past, "--must-be-held", "digest"), "no job 'digest' was configured or held a lock when"),
        (("ls", *past, "--job", "send_daily_digst"), "did you mean send_daily_digest?"),
        (("why", "pid:1", *past), "'pid:1' holds no advisory lock"),
        (("ls", "--replay", "nowhere.rec"), "nowhere.rec cannot be read (No such file or directory)"),
        (("ls", "--replay", "."), ". is not a file: name a recording"),
        (("record", "nowhere/x.rec"), "nowhere/x.rec cannot be written (No such file or directory)"),
    ):
        done = later(*arguments, code=3, env={"PGLOCK_DSN": "host=/nowhere"})
        assert told in done.stderr
    later("check", *past, "--must-be-held", "send_daily_digest")
    later("check", *past, "--must-be-free", "send_daily_digest", code=2)
    text = file.with_name("notes.txt")
    text.write_text("Dear diary")
    for command in (("record", str(text)), ("ls", "--replay", str(text)), ("check", "--replay", str(text))):
        assert (
            f"{text} is no recording of pglock-inspect"
            in later(*command, code=3, env={"PGLOCK_DSN": "host=/nowhere"}).stderr
        )
    assert text.read_text() == "Dear diary"
    assert holder.info.backend_pid

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from pglock_inspect import state_file
from pglock_inspect.errors import BadStateFile
from pglock_inspect.files import replace_file
from pglock_inspect.runs import JobRuns
from pglock_inspect.state import Memory, State, remember
from pglock_inspect.state_file import StateFile
from tests.support.polls import at, lock_rows, session, snapshot, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STATE = remember(
    Memory(
        watched(snapshot(0, lock_rows(1, 7), sessions=[session(1)], clock=0.5)),
        {"digest": JobRuns(at(0), at(0), at(0))},
    )
)


def written(states: Mapping[str, State]) -> bytes:
    """States, to compare by what they say."""
    return msgspec.json.encode(states)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.json"


@pytest.fixture
def boot(path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Makes the system another run of itself, or one that has no name."""

    def boot(name: str | None) -> None:
        file = path.parent / "boot_id"
        if name is None:
            file.unlink(missing_ok=True)
        else:
            file.write_text(name)
        monkeypatch.setattr(state_file, "_BOOT", file)

    boot("this one")
    return boot


@pytest.mark.usefixtures("boot")
def test_what_one_process_leaves_another_one_finds(path: Path) -> None:
    first = StateFile(path)
    assert first.load() == {}
    first.save({"here": STATE})
    assert written(StateFile(path).load()) == written({"here": STATE})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(file.name for file in path.parent.iterdir()) == ["boot_id", "state.json"]


@pytest.mark.usefixtures("boot")
def test_other_targets_stay(path: Path) -> None:
    StateFile(path).save({"here": STATE, "there": STATE})
    file = StateFile(path)
    file.load()
    file.save({"here": State()})
    assert written(StateFile(path).load()) == written({"here": State(), "there": STATE})


@pytest.mark.parametrize(("then", "now"), [("this one", "the next"), (None, None), ("this one", None)])
def test_after_a_reboot_no_age_is_left(
    then: str | None, now: str | None, path: Path, boot: Callable[[str | None], None]
) -> None:
    boot(then)
    StateFile(path).save({"here": STATE})
    boot(now)
    assert StateFile(path).load() == {"here": STATE.without_clock()}


def test_the_system_names_its_run() -> None:
    assert state_file._boot() == Path("/proc/sys/kernel/random/boot_id").read_text()


def test_an_empty_file_is_filled(path: Path) -> None:
    path.touch()
    assert StateFile(path).load() == {}


@pytest.mark.parametrize(
    "content",
    [
        b'{"file":"pglock-inspect state 1"',
        b'{"file":"pglock-inspect state 1","boot":null,"states":{"here":{"last":7}}}',
        b'{"file":"pglock-inspect state 1","boot":null,"states":{"\xff":{}}}',
        b'{"file":"pglock-inspect state 99","boot":null,"states":{}}',
    ],
)
def test_what_is_damaged_or_of_another_version_is_told_and_replaced(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    file = StateFile(path)
    assert file.load() == {}
    assert file.problem == f"{path} is damaged or of another version: observing begins anew"
    file.save({"here": State()})
    again = StateFile(path)
    assert again.load() == {"here": State()}
    assert again.problem is None


@pytest.mark.parametrize("content", [b"{}", b"root:x:0:0", b"\x00"])
def test_what_is_not_ours_is_never_overwritten(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(BadStateFile) as error:
        StateFile(path).load()
    assert str(error.value) == f"{path} is no state file of pglock-inspect: name another, or remove it"
    assert path.read_bytes() == content


def test_a_directory_and_a_device_are_no_files(path: Path) -> None:
    path.mkdir()
    for other in (path, Path("/dev/null")):
        with pytest.raises(BadStateFile, match=f"^{other} is not a file: name one that may be written$"):
            StateFile(other).load()


def test_a_file_below_a_file_cannot_be_read(path: Path) -> None:
    path.touch()
    with pytest.raises(BadStateFile, match=r"cannot be read \(Not a directory\): let this user read it"):
        StateFile(path / "below").load()


def test_a_directory_that_is_not_there_cannot_be_written_to(path: Path) -> None:
    with pytest.raises(BadStateFile, match=r"cannot be written \(No such file or directory\): name a file"):
        StateFile(path / "missing" / "state").save({})


def test_a_link_stays_a_link(path: Path) -> None:
    elsewhere = path.with_name("elsewhere")
    path.symlink_to(elsewhere)
    StateFile(path).save({"here": State()})
    assert path.is_symlink()
    assert StateFile(elsewhere).load() == {"here": State()}


def test_a_write_that_fails_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_file(path, b"before")
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"after")
    assert path.read_bytes() == b"before"
    assert [*path.parent.iterdir()] == [path]

"""What is noted of runs, for the node exporter."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pglock_inspect.errors import ConfigError
from pglock_inspect.run.textfile import Outcome, check, note


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "runs.prom"


def values(file: Path, name: str = "digest") -> dict[str, float]:
    """Return what is said of a job, by the metric's name without its prefix, or by the outcome."""
    return {
        sample.labels.get("outcome") or sample.name.removeprefix("pglock_run_"): sample.value
        for family in text_string_to_metric_families(file.read_text("utf-8"))
        for sample in family.samples
        if sample.labels["name"] == name
    }


NOTHING = dict.fromkeys(get_args(Outcome), 0)


def test_a_run_that_succeeds(file: Path) -> None:
    note(file, "digest", "success", at=1000.5, seconds=2.5, code=0)
    assert values(file) == NOTHING | {
        "success": 1,
        "skips_in_a_row": 0,
        "exit_code": 0,
        "duration_seconds": 2.5,
        "last_success_timestamp_seconds": 1000.5,
    }


def test_runs_are_added_up_and_the_last_success_is_kept(file: Path) -> None:
    note(file, "digest", "success", at=1000, seconds=2, code=0)
    note(file, "digest", "failure", at=2000, seconds=3, code=7)
    note(file, "digest", "lost", at=3000, seconds=4, code=76)
    assert values(file) == NOTHING | {
        "success": 1,
        "failure": 1,
        "lost": 1,
        "skips_in_a_row": 0,
        "exit_code": 76,
        "duration_seconds": 4,
        "last_success_timestamp_seconds": 1000,
    }


def test_skips_in_a_row_end_with_a_run(file: Path) -> None:
    for at in range(3):
        note(file, "digest", "skipped", at=at)
    assert values(file) == NOTHING | {"skipped": 3, "skips_in_a_row": 3}
    note(file, "digest", "unavailable", at=4)
    assert values(file) == NOTHING | {"skipped": 3, "unavailable": 1, "skips_in_a_row": 3}
    note(file, "digest", "failure", at=5, seconds=1, code=1)
    assert values(file)["skips_in_a_row"] == 0
    assert values(file)["skipped"] == 3


@pytest.mark.parametrize("name", ['"}\n# HELP x y\nx 1', "größe \\ 😀", ""])
def test_jobs_share_a_file_whatever_they_are_called(file: Path, name: str) -> None:
    note(file, name, "success", at=1, seconds=1, code=0)
    note(file, "digest", "failure", at=1, seconds=1, code=3)
    note(file, name, "success", at=2, seconds=1, code=0)
    assert values(file, name)["success"] == 2
    assert values(file)["exit_code"] == 3


def test_two_at_once_are_both_counted(file: Path) -> None:
    def skip() -> None:
        for at in range(20):
            note(file, "digest", "skipped", at=at)

    threads = [threading.Thread(target=skip) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values(file)["skipped"] == 80
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_others_may_read_it(file: Path) -> None:
    note(file, "digest", "success", at=1, seconds=1, code=0)
    assert file.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("content", ["node_load1 0.5\n", "not metrics at all", "\x00", "pglock_up 1\n"])
def test_a_file_of_something_else_is_left_alone(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(ConfigError, match="holds something else"):
        check(file)
    with pytest.raises(ConfigError, match="holds something else"):
        note(file, "digest", "success", at=1, seconds=1, code=0)
    assert file.read_text() == content


def test_a_directory_that_is_not_there_is_told_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no file can be written in that directory"):
        check(tmp_path / "nowhere" / "runs.prom")
    check(tmp_path / "runs.prom")


def test_what_is_not_a_file_is_left_alone(file: Path, tmp_path: Path) -> None:
    os.mkfifo(file)
    for path in (file, tmp_path, Path("/dev/zero")):
        with pytest.raises(ConfigError, match="is not a file"):
            check(path)
    with pytest.raises(ConfigError, match="is not a file"):
        note(file, "digest", "success", at=1, seconds=1, code=0)
    assert file.is_fifo()
